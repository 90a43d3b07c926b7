// What the lanes of one warp get of each other: y[i, lane] for the i-th op, from
// x[lane].
llvm.func @warp(%x: !llvm.ptr, %y: !llvm.ptr) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 32, 1, 1>, tfm.grid = array<i64: 1, 1, 1>} {
  %all = llvm.mlir.constant(-1 : i32) : i32
  %0 = llvm.mlir.constant(0 : i32) : i32
  %1 = llvm.mlir.constant(1 : i32) : i32
  %3 = llvm.mlir.constant(3 : i32) : i32
  %5 = llvm.mlir.constant(5 : i32) : i32
  %31 = llvm.mlir.constant(31 : i32) : i32
  // Groups of eight lanes: the mask 24 (shifted by 8), and the clamp 31 or 0.
  %eights = llvm.mlir.constant(6175 : i32) : i32
  %eightsUp = llvm.mlir.constant(6144 : i32) : i32
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %at = llvm.getelementptr %x[%lane] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  %v = llvm.load %at : !llvm.ptr -> i32
  %bfly = nvvm.shfl.sync bfly %all, %v, %5, %31 : i32 -> i32
  %up = nvvm.shfl.sync up %all, %v, %3, %eightsUp : i32 -> i32
  %down = nvvm.shfl.sync down %all, %v, %3, %eights : i32 -> i32
  %idx = nvvm.shfl.sync idx %all, %v, %5, %eights : i32 -> i32
  %pair = nvvm.shfl.sync up %all, %v, %1, %0 {return_value_and_is_valid} : i32 -> !llvm.struct<(i32, i1)>
  %valid = llvm.extractvalue %pair[1] : !llvm.struct<(i32, i1)>
  %isValid = llvm.zext %valid : i1 to i32
  %add = nvvm.redux.sync add %v, %all : i32 -> i32
  %max = nvvm.redux.sync max %v, %all : i32 -> i32
  %umin = nvvm.redux.sync umin %v, %all : i32 -> i32
  %xor = nvvm.redux.sync xor %v, %all : i32 -> i32
  %negative = llvm.icmp "slt" %v, %0 : i32
  %ballot = nvvm.vote.sync ballot %all, %negative -> i32
  %any = nvvm.vote.sync any %all, %negative -> i1
  %isAny = llvm.zext %any : i1 to i32
  %uni = nvvm.vote.sync uni %all, %negative -> i1
  %isUni = llvm.zext %uni : i1 to i32
  %leader = nvvm.elect.sync -> i1
  %isLeader = llvm.zext %leader : i1 to i32
  %p0 = llvm.getelementptr %y[%lane] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  llvm.store %bfly, %p0 : i32, !llvm.ptr
  %p1 = llvm.getelementptr %p0[32] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %up, %p1 : i32, !llvm.ptr
  %p2 = llvm.getelementptr %p0[64] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %down, %p2 : i32, !llvm.ptr
  %p3 = llvm.getelementptr %p0[96] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %idx, %p3 : i32, !llvm.ptr
  %p4 = llvm.getelementptr %p0[128] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %isValid, %p4 : i32, !llvm.ptr
  %p5 = llvm.getelementptr %p0[160] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %add, %p5 : i32, !llvm.ptr
  %p6 = llvm.getelementptr %p0[192] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %max, %p6 : i32, !llvm.ptr
  %p7 = llvm.getelementptr %p0[224] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %umin, %p7 : i32, !llvm.ptr
  %p8 = llvm.getelementptr %p0[256] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %xor, %p8 : i32, !llvm.ptr
  %p9 = llvm.getelementptr %p0[288] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %ballot, %p9 : i32, !llvm.ptr
  %p10 = llvm.getelementptr %p0[320] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %isAny, %p10 : i32, !llvm.ptr
  %p11 = llvm.getelementptr %p0[352] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %isUni, %p11 : i32, !llvm.ptr
  %p12 = llvm.getelementptr %p0[384] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %isLeader, %p12 : i32, !llvm.ptr
  llvm.return
}

// y = the transpose of x, each 16 by 16 elements of 16 bits: four matrices of 8 by
// 8, transposed while they are loaded and put where they belong.
llvm.mlir.global internal @tiles() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<512 x i8>

llvm.func @transpose(%x: !llvm.ptr, %y: !llvm.ptr) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 32, 1, 1>, tfm.grid = array<i64: 1, 1, 1>} {
  %all = llvm.mlir.constant(-1 : i32) : i32
  %1 = llvm.mlir.constant(1 : i32) : i32
  %3 = llvm.mlir.constant(3 : i32) : i32
  %7 = llvm.mlir.constant(7 : i32) : i32
  %8 = llvm.mlir.constant(8 : i32) : i32
  %16 = llvm.mlir.constant(16 : i32) : i32
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %tiles = llvm.mlir.addressof @tiles : !llvm.ptr<3>
  // Lane l brings 16 bytes, and takes as many.
  %mine = llvm.mul %lane, %8 : i32
  %from = llvm.getelementptr %x[%mine] : (!llvm.ptr, i32) -> !llvm.ptr, i16
  %place = llvm.getelementptr %tiles[%mine] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i16
  %eight = llvm.load %from {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
  llvm.store %eight, %place {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
  nvvm.bar.warp.sync %all : i32
  %inMatrix = llvm.and %lane, %7 : i32
  %matrix = llvm.lshr %lane, %3 : i32
  %odd = llvm.and %matrix, %1 : i32
  %high = llvm.lshr %matrix, %1 : i32
  %oddRows = llvm.mul %odd, %8 : i32
  %highColumns = llvm.mul %high, %8 : i32
  %row = llvm.add %inMatrix, %oddRows : i32
  %rowAt = llvm.mul %row, %16 : i32
  %readAt = llvm.add %rowAt, %highColumns : i32
  %read = llvm.getelementptr %tiles[%readAt] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i16
  %f = nvvm.ldmatrix %read {num = 4 : i32, layout = #nvvm.mma_layout<col>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
  nvvm.bar.warp.sync %all : i32
  %toRow = llvm.add %inMatrix, %highColumns : i32
  %toRowAt = llvm.mul %toRow, %16 : i32
  %writeAt = llvm.add %toRowAt, %oddRows : i32
  %write = llvm.getelementptr %tiles[%writeAt] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i16
  %m0 = llvm.extractvalue %f[0] : !llvm.struct<(i32, i32, i32, i32)>
  %m1 = llvm.extractvalue %f[1] : !llvm.struct<(i32, i32, i32, i32)>
  %m2 = llvm.extractvalue %f[2] : !llvm.struct<(i32, i32, i32, i32)>
  %m3 = llvm.extractvalue %f[3] : !llvm.struct<(i32, i32, i32, i32)>
  nvvm.stmatrix %write, %m0, %m1, %m2, %m3 {layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32, i32, i32, i32
  nvvm.bar.warp.sync %all : i32
  %result = llvm.load %place {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
  %to = llvm.getelementptr %y[%mine] : (!llvm.ptr, i32) -> !llvm.ptr, i16
  llvm.store %result, %to {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr
  llvm.return
}
