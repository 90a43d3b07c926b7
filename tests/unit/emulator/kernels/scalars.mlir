// What a thread computes alone: y[i, thread] for the i-th function of x[thread],
// and with a table of constants.
llvm.mlir.global internal constant @table(dense<[3.0, 5.0]> : tensor<2xf32>) {addr_space = 0 : i32} : !llvm.array<2 x f32>

llvm.func @scalars(%x: !llvm.ptr, %y: !llvm.ptr, %scale: i64) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 8, 4, 2>, tfm.grid = array<i64: 1, 2, 1>} {
  %1 = llvm.mlir.constant(1 : i32) : i32
  %4 = llvm.mlir.constant(4 : i32) : i32
  %8 = llvm.mlir.constant(8 : i32) : i32
  %64 = llvm.mlir.constant(64 : i32) : i32
  %0 = llvm.mlir.constant(0 : i32) : i32
  %tx = nvvm.read.ptx.sreg.tid.x : i32
  %ty = nvvm.read.ptx.sreg.tid.y : i32
  %tz = nvvm.read.ptx.sreg.tid.z : i32
  %block = nvvm.read.ptx.sreg.ctaid.y : i32
  %zRows = llvm.mul %tz, %4 : i32
  %rows = llvm.add %zRows, %ty : i32
  %rowsBegin = llvm.mul %rows, %8 : i32
  %thread = llvm.add %rowsBegin, %tx : i32
  %blockBegin = llvm.mul %block, %64 : i32
  %i = llvm.add %blockBegin, %thread : i32
  %at = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %v = llvm.load %at : !llvm.ptr -> f32
  %exp2 = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%v) : (f32) -> f32
  %rsqrt = llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"(%v) : (f32) -> f32
  %rcp = nvvm.rcp.approx.ftz.f %v : f32
  %bf16 = llvm.fptrunc %v : f32 to bf16
  %rounded = llvm.fpext %bf16 : bf16 to f32
  %pair = nvvm.convert.f32x2.to.bf16x2 %rcp, %v {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xbf16>
  %high = llvm.extractelement %pair[%1 : i32] : vector<2xbf16>
  %highRounded = llvm.fpext %high : bf16 to f32
  %table = llvm.mlir.addressof @table : !llvm.ptr
  %odd = llvm.and %thread, %1 : i32
  %entryAt = llvm.getelementptr %table[%odd] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %entry = llvm.load %entryAt : !llvm.ptr -> f32
  %factor = llvm.sitofp %scale : i64 to f32
  %scaled = llvm.fmul %entry, %factor : f32
  // A thread's own memory is nobody's business.
  %own = llvm.alloca %4 x f32 : (i32) -> !llvm.ptr
  llvm.store %scaled, %own : f32, !llvm.ptr
  %kept = llvm.load %own : !llvm.ptr -> f32
  %p0 = llvm.getelementptr %y[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  llvm.store %exp2, %p0 : f32, !llvm.ptr
  %p1 = llvm.getelementptr %p0[128] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %rsqrt, %p1 : f32, !llvm.ptr
  %p2 = llvm.getelementptr %p0[256] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %rounded, %p2 : f32, !llvm.ptr
  %p3 = llvm.getelementptr %p0[384] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %highRounded, %p3 : f32, !llvm.ptr
  %p4 = llvm.getelementptr %p0[512] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %kept, %p4 : f32, !llvm.ptr
  llvm.return
}
