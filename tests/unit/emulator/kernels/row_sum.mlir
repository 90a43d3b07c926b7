// y[r] is the sum of x[r, 0:512], by a block of 128 threads for each of 3 rows:
// each thread adds up four elements, each warp 32 threads by shuffles, and
// thread 0 the four warps, which wrote to shared memory.
llvm.mlir.global internal @partial() {addr_space = 3 : i32} : !llvm.array<16 x i8>

llvm.func @row_sum(%x: !llvm.ptr, %y: !llvm.ptr) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>, tfm.grid = array<i64: 3, 1, 1>} {
  %all = llvm.mlir.constant(-1 : i32) : i32
  %0 = llvm.mlir.constant(0 : i32) : i32
  %1 = llvm.mlir.constant(1 : i32) : i32
  %2 = llvm.mlir.constant(2 : i32) : i32
  %3 = llvm.mlir.constant(3 : i32) : i32
  %4 = llvm.mlir.constant(4 : i32) : i32
  %5 = llvm.mlir.constant(5 : i32) : i32
  %8 = llvm.mlir.constant(8 : i32) : i32
  %16 = llvm.mlir.constant(16 : i32) : i32
  %31 = llvm.mlir.constant(31 : i32) : i32
  %512 = llvm.mlir.constant(512 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %row = nvvm.read.ptx.sreg.ctaid.x : i32
  %warp = llvm.lshr %tid, %5 : i32
  %begin = llvm.mul %row, %512 : i32
  %mine = llvm.mul %tid, %4 : i32
  %index = llvm.add %begin, %mine : i32
  %at = llvm.getelementptr %x[%index] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %four = llvm.load %at : !llvm.ptr -> vector<4xf32>
  %e0 = llvm.extractelement %four[%0 : i32] : vector<4xf32>
  %e1 = llvm.extractelement %four[%1 : i32] : vector<4xf32>
  %e2 = llvm.extractelement %four[%2 : i32] : vector<4xf32>
  %e3 = llvm.extractelement %four[%3 : i32] : vector<4xf32>
  %s0 = llvm.fadd %e0, %e1 : f32
  %s1 = llvm.fadd %e2, %e3 : f32
  %s2 = llvm.fadd %s0, %s1 : f32
  %o0 = nvvm.shfl.sync bfly %all, %s2, %16, %31 : f32 -> f32
  %s3 = llvm.fadd %s2, %o0 : f32
  %o1 = nvvm.shfl.sync bfly %all, %s3, %8, %31 : f32 -> f32
  %s4 = llvm.fadd %s3, %o1 : f32
  %o2 = nvvm.shfl.sync bfly %all, %s4, %4, %31 : f32 -> f32
  %s5 = llvm.fadd %s4, %o2 : f32
  %o3 = nvvm.shfl.sync bfly %all, %s5, %2, %31 : f32 -> f32
  %s6 = llvm.fadd %s5, %o3 : f32
  %o4 = nvvm.shfl.sync bfly %all, %s6, %1, %31 : f32 -> f32
  %s7 = llvm.fadd %s6, %o4 : f32
  %partial = llvm.mlir.addressof @partial : !llvm.ptr<3>
  %leads = llvm.icmp "eq" %lane, %0 : i32
  llvm.cond_br %leads, ^write, ^meet
^write:
  %place = llvm.getelementptr %partial[%warp] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  llvm.store %s7, %place : f32, !llvm.ptr<3>
  llvm.br ^meet
^meet:
  nvvm.barrier0
  %first = llvm.icmp "eq" %tid, %0 : i32
  llvm.cond_br %first, ^sum, ^end
^sum:
  %warps = llvm.load %partial : !llvm.ptr<3> -> vector<4xf32>
  %w0 = llvm.extractelement %warps[%0 : i32] : vector<4xf32>
  %w1 = llvm.extractelement %warps[%1 : i32] : vector<4xf32>
  %w2 = llvm.extractelement %warps[%2 : i32] : vector<4xf32>
  %w3 = llvm.extractelement %warps[%3 : i32] : vector<4xf32>
  %t0 = llvm.fadd %w0, %w1 : f32
  %t1 = llvm.fadd %w2, %w3 : f32
  %t2 = llvm.fadd %t0, %t1 : f32
  %out = llvm.getelementptr %y[%row] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  llvm.store %t2, %out : f32, !llvm.ptr
  llvm.br ^end
^end:
  llvm.return
}
