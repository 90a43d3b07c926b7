// y[i] = x[63 - i] and y[32 + i] = 2 x[i] for 32 i, in steps that threads wait for
// in all the other ways: copies that an mbarrier waits for, a barrier of one warp,
// a named barrier that one warp arrives at and another waits at.
llvm.mlir.global internal @bar() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<8 x i8>
llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x f32>
llvm.mlir.global internal @doubled() {addr_space = 3 : i32} : !llvm.array<32 x f32>

llvm.func @hand_over(%x: !llvm.ptr, %y: !llvm.ptr) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 64, 1, 1>, tfm.grid = array<i64: 1, 1, 1>} {
  %two = llvm.mlir.constant(2.0 : f32) : f32
  %all = llvm.mlir.constant(-1 : i32) : i32
  %0 = llvm.mlir.constant(0 : i32) : i32
  %1 = llvm.mlir.constant(1 : i32) : i32
  %2 = llvm.mlir.constant(2 : i32) : i32
  %31 = llvm.mlir.constant(31 : i32) : i32
  %32 = llvm.mlir.constant(32 : i32) : i32
  %63 = llvm.mlir.constant(63 : i32) : i32
  %64 = llvm.mlir.constant(64 : i32) : i32
  %bar = llvm.mlir.addressof @bar : !llvm.ptr<3>
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %twice = llvm.mlir.addressof @doubled : !llvm.ptr<3>
  %gx = llvm.addrspacecast %x : !llvm.ptr to !llvm.ptr<1>
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %warp = nvvm.read.ptx.sreg.warpid : i32
  %first = llvm.icmp "eq" %tid, %0 : i32
  llvm.cond_br %first, ^init, ^begin
^init:
  nvvm.mbarrier.init %bar, %64 : !llvm.ptr<3>, i32
  llvm.br ^begin
^begin:
  nvvm.barrier0
  %from = llvm.getelementptr %gx[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %to = llvm.getelementptr %tile[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  nvvm.cp.async.shared.global %to, %from, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
  nvvm.cp.async.mbarrier.arrive %bar {noinc = true} : !llvm.ptr<3>
  llvm.br ^poll
^poll:
  %done = nvvm.mbarrier.test.wait %bar, %0 : !llvm.ptr<3>, i32 -> i1
  llvm.cond_br %done, ^copied, ^poll
^copied:
  %mirror = llvm.sub %63, %tid : i32
  %read = llvm.getelementptr %tile[%mirror] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %value = llvm.load %read : !llvm.ptr<3> -> f32
  %high = llvm.icmp "eq" %warp, %1 : i32
  llvm.cond_br %high, ^double, ^write
^double:
  %sum = llvm.fmul %value, %two : f32
  %place = llvm.getelementptr %twice[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  llvm.store %sum, %place : f32, !llvm.ptr<3>
  nvvm.bar.warp.sync %all : i32
  // Read by the lane that mirrors it in this warp; then in the other warp.
  %other = llvm.sub %31, %lane : i32
  %again = llvm.getelementptr %twice[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %mine = llvm.load %again : !llvm.ptr<3> -> f32
  nvvm.bar.warp.sync %all : i32
  llvm.store %mine, %place : f32, !llvm.ptr<3>
  nvvm.barrier.arrive id = %1 number_of_threads = %64
  // Where a lane may be before others of its warp have arrived.
  nvvm.barrier id = %2 number_of_threads = %32
  llvm.br ^end
^write:
  %low = llvm.getelementptr %y[%tid] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  llvm.store %value, %low : f32, !llvm.ptr
  nvvm.barrier id = %1 number_of_threads = %64
  %theirs = llvm.getelementptr %twice[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %result = llvm.load %theirs : !llvm.ptr<3> -> f32
  %out = llvm.getelementptr %low[32] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %result, %out : f32, !llvm.ptr
  llvm.br ^end
^end:
  llvm.return
}
