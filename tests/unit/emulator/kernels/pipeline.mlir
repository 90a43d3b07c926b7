// y[i] = 2 x[i] for 8 rounds of 32 elements: warp 0 puts them into one of two
// stages in shared memory and warp 1 takes them out, reversed and back. Each stage
// has an mbarrier for "full" (bytes 0 and 8) and one for "empty" (16 and 24).
llvm.mlir.global internal @bars() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<32 x i8>
llvm.mlir.global internal @stage() {addr_space = 3 : i32} : !llvm.array<64 x f32>

llvm.func @pipeline(%x: !llvm.ptr, %y: !llvm.ptr) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 64, 1, 1>, tfm.grid = array<i64: 1, 1, 1>} {
  %two = llvm.mlir.constant(2.0 : f32) : f32
  %0 = llvm.mlir.constant(0 : i32) : i32
  %1 = llvm.mlir.constant(1 : i32) : i32
  %2 = llvm.mlir.constant(2 : i32) : i32
  %8 = llvm.mlir.constant(8 : i32) : i32
  %31 = llvm.mlir.constant(31 : i32) : i32
  %32 = llvm.mlir.constant(32 : i32) : i32
  %ticks = llvm.mlir.constant(1000 : i32) : i32
  %full0 = llvm.mlir.addressof @bars : !llvm.ptr<3>
  %full1 = llvm.getelementptr %full0[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64
  %empty0 = llvm.getelementptr %full0[2] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64
  %empty1 = llvm.getelementptr %full0[3] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64
  %stages = llvm.mlir.addressof @stage : !llvm.ptr<3>
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %warp = nvvm.read.ptx.sreg.warpid : i32
  %mirrored = llvm.sub %31, %lane : i32
  %first = llvm.icmp "eq" %tid, %0 : i32
  llvm.cond_br %first, ^init, ^begin
^init:
  nvvm.mbarrier.init %full0, %32 : !llvm.ptr<3>, i32
  nvvm.mbarrier.init %full1, %32 : !llvm.ptr<3>, i32
  nvvm.mbarrier.init %empty0, %32 : !llvm.ptr<3>, i32
  nvvm.mbarrier.init %empty1, %32 : !llvm.ptr<3>, i32
  llvm.br ^begin
^begin:
  nvvm.barrier0
  %produces = llvm.icmp "eq" %warp, %0 : i32
  llvm.cond_br %produces, ^produce(%0 : i32), ^consume(%0 : i32)

^produce(%i: i32):
  %pStage = llvm.and %i, %1 : i32
  %pTurn = llvm.lshr %i, %1 : i32
  %pParity = llvm.and %pTurn, %1 : i32
  // The first turn finds the stages empty: "the phase before the first" is over.
  %pWait = llvm.xor %pParity, %1 : i32
  %pEmpty = llvm.getelementptr %empty0[%pStage] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  %pFull = llvm.getelementptr %full0[%pStage] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  nvvm.mbarrier.try_wait.parity %pEmpty, %pWait, %ticks : !llvm.ptr<3>, i32, i32
  %pRound = llvm.mul %i, %32 : i32
  %pIndex = llvm.add %pRound, %lane : i32
  %from = llvm.getelementptr %x[%pIndex] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %value = llvm.load %from : !llvm.ptr -> f32
  %pBegin = llvm.mul %pStage, %32 : i32
  %pPlace = llvm.add %pBegin, %mirrored : i32
  %to = llvm.getelementptr %stages[%pPlace] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  llvm.store %value, %to : f32, !llvm.ptr<3>
  %pState = nvvm.mbarrier.arrive %pFull : !llvm.ptr<3> -> i64
  %pNext = llvm.add %i, %1 : i32
  %pMore = llvm.icmp "ult" %pNext, %8 : i32
  llvm.cond_br %pMore, ^produce(%pNext : i32), ^end

^consume(%j: i32):
  %cStage = llvm.and %j, %1 : i32
  %cTurn = llvm.lshr %j, %1 : i32
  %cParity = llvm.and %cTurn, %1 : i32
  %cEmpty = llvm.getelementptr %empty0[%cStage] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  %cFull = llvm.getelementptr %full0[%cStage] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  nvvm.mbarrier.try_wait.parity %cFull, %cParity, %ticks : !llvm.ptr<3>, i32, i32
  %cBegin = llvm.mul %cStage, %32 : i32
  %cPlace = llvm.add %cBegin, %mirrored : i32
  %read = llvm.getelementptr %stages[%cPlace] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %taken = llvm.load %read : !llvm.ptr<3> -> f32
  %doubled = llvm.fmul %taken, %two : f32
  %cRound = llvm.mul %j, %32 : i32
  %cIndex = llvm.add %cRound, %lane : i32
  %out = llvm.getelementptr %y[%cIndex] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  llvm.store %doubled, %out : f32, !llvm.ptr
  %cState = nvvm.mbarrier.arrive %cEmpty : !llvm.ptr<3> -> i64
  %cNext = llvm.add %j, %1 : i32
  %cMore = llvm.icmp "ult" %cNext, %8 : i32
  llvm.cond_br %cMore, ^consume(%cNext : i32), ^end
^end:
  llvm.return
}
