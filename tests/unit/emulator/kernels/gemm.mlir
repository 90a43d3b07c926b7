// c[64, 32] = a[64, 64] · b[64, 32], of bf16, in f32. A block of two warps makes
// 32 by 16 elements of c, and each warp 16 by 16. Of a 32 by 16 elements and of b
// 16 by 16 are a stage in shared memory, 1536 bytes. While one is multiplied the
// next is copied; of three one is nobody's, so that a barrier a step is enough.
llvm.mlir.global external @stages() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>

llvm.func @gemm(%a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr) attributes {
    nvvm.kernel, nvvm.reqntid = array<i32: 64, 1, 1>, tfm.grid = array<i64: 2, 2, 1>, tfm.shared = 4608 : i64} {
  %zero = llvm.mlir.constant(0.0 : f32) : f32
  %0 = llvm.mlir.constant(0 : i32) : i32
  %1 = llvm.mlir.constant(1 : i32) : i32
  %2 = llvm.mlir.constant(2 : i32) : i32
  %3 = llvm.mlir.constant(3 : i32) : i32
  %4 = llvm.mlir.constant(4 : i32) : i32
  %7 = llvm.mlir.constant(7 : i32) : i32
  %8 = llvm.mlir.constant(8 : i32) : i32
  %16 = llvm.mlir.constant(16 : i32) : i32
  %31 = llvm.mlir.constant(31 : i32) : i32
  %32 = llvm.mlir.constant(32 : i32) : i32
  %64 = llvm.mlir.constant(64 : i32) : i32
  %512 = llvm.mlir.constant(512 : i32) : i32
  %1024 = llvm.mlir.constant(1024 : i32) : i32
  %1536 = llvm.mlir.constant(1536 : i32) : i32
  %stages = llvm.mlir.addressof @stages : !llvm.ptr<3>
  %ga = llvm.addrspacecast %a : !llvm.ptr to !llvm.ptr<1>
  %gb = llvm.addrspacecast %b : !llvm.ptr to !llvm.ptr<1>
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %warp = nvvm.read.ptx.sreg.warpid : i32
  %bx = nvvm.read.ptx.sreg.ctaid.x : i32
  %by = nvvm.read.ptx.sreg.ctaid.y : i32
  // A thread copies 8 elements: of row tid / 2 of a, and, in warp 0, of b.
  %copyRow = llvm.lshr %tid, %1 : i32
  %copyHalf = llvm.and %tid, %1 : i32
  %copyColumn = llvm.mul %copyHalf, %8 : i32
  %copyTo = llvm.mul %tid, %16 : i32
  %rows = llvm.mul %by, %32 : i32
  %columns = llvm.mul %bx, %16 : i32
  %aRow = llvm.add %rows, %copyRow : i32
  %aBegin = llvm.mul %aRow, %64 : i32
  %aFirst = llvm.add %aBegin, %copyColumn : i32
  %bFirst = llvm.add %columns, %copyColumn : i32
  %copiesB = llvm.icmp "ult" %tid, %32 : i32
  // Lane l gives the address of row l % 8 of the 8 by 8 matrix l / 8, which are of
  // a {rows 0, k 0}, {8, 0}, {0, 8}, {8, 8} and of b {k 0, columns 0}, {8, 0}, ...
  %inMatrix = llvm.and %lane, %7 : i32
  %matrix = llvm.lshr %lane, %3 : i32
  %odd = llvm.and %matrix, %1 : i32
  %oddRows = llvm.mul %odd, %8 : i32
  %matrixRow = llvm.add %inMatrix, %oddRows : i32
  %high = llvm.lshr %matrix, %1 : i32
  %highBytes = llvm.mul %high, %16 : i32
  %rowBytes = llvm.mul %matrixRow, %32 : i32
  %bOffset = llvm.add %rowBytes, %highBytes : i32
  %bRead = llvm.add %bOffset, %1024 : i32
  %warpBytes = llvm.mul %warp, %512 : i32
  %aRead = llvm.add %bOffset, %warpBytes : i32
  llvm.br ^copy(%0, %zero, %zero, %zero, %zero, %zero, %zero, %zero, %zero : i32, f32, f32, f32, f32, f32, f32, f32, f32)

// Begins the copies of 16 k from 16 step on, which are multiplied a step later.
^copy(%step: i32, %d0: f32, %d1: f32, %d2: f32, %d3: f32, %d4: f32, %d5: f32, %d6: f32, %d7: f32):
  %more = llvm.icmp "ult" %step, %4 : i32
  llvm.cond_br %more, ^copyA, ^commit
^copyA:
  %stage = llvm.urem %step, %3 : i32
  %stageAt = llvm.mul %stage, %1536 : i32
  %k = llvm.mul %step, %16 : i32
  %aIndex = llvm.add %aFirst, %k : i32
  %aFrom = llvm.getelementptr %ga[%aIndex] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, bf16
  %aAt = llvm.add %stageAt, %copyTo : i32
  %aTo = llvm.getelementptr %stages[%aAt] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  nvvm.cp.async.shared.global %aTo, %aFrom, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  llvm.cond_br %copiesB, ^copyB, ^commit
^copyB:
  %bRow = llvm.add %k, %copyRow : i32
  %bBegin = llvm.mul %bRow, %32 : i32
  %bIndex = llvm.add %bFirst, %bBegin : i32
  %bFrom = llvm.getelementptr %gb[%bIndex] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, bf16
  %bAt = llvm.add %aAt, %1024 : i32
  %bTo = llvm.getelementptr %stages[%bAt] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  nvvm.cp.async.shared.global %bTo, %bFrom, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  llvm.br ^commit
^commit:
  nvvm.cp.async.commit.group
  %next = llvm.add %step, %1 : i32
  %filled = llvm.icmp "uge" %step, %1 : i32
  llvm.cond_br %filled, ^wait, ^copy(%next, %d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7 : i32, f32, f32, f32, f32, f32, f32, f32, f32)

// The last copies are under way; those before them are multiplied.
^wait:
  nvvm.cp.async.wait.group 1
  nvvm.barrier0
  %now = llvm.sub %step, %1 : i32
  %nowStage = llvm.urem %now, %3 : i32
  %nowAt = llvm.mul %nowStage, %1536 : i32
  %aFragmentAt = llvm.add %nowAt, %aRead : i32
  %bFragmentAt = llvm.add %nowAt, %bRead : i32
  %aRows = llvm.getelementptr %stages[%aFragmentAt] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  %bRows = llvm.getelementptr %stages[%bFragmentAt] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  %fa = nvvm.ldmatrix %aRows {num = 4 : i32, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
  %fb = nvvm.ldmatrix %bRows {num = 4 : i32, layout = #nvvm.mma_layout<col>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
  %a0 = llvm.extractvalue %fa[0] : !llvm.struct<(i32, i32, i32, i32)>
  %a1 = llvm.extractvalue %fa[1] : !llvm.struct<(i32, i32, i32, i32)>
  %a2 = llvm.extractvalue %fa[2] : !llvm.struct<(i32, i32, i32, i32)>
  %a3 = llvm.extractvalue %fa[3] : !llvm.struct<(i32, i32, i32, i32)>
  %b0 = llvm.extractvalue %fb[0] : !llvm.struct<(i32, i32, i32, i32)>
  %b1 = llvm.extractvalue %fb[1] : !llvm.struct<(i32, i32, i32, i32)>
  %b2 = llvm.extractvalue %fb[2] : !llvm.struct<(i32, i32, i32, i32)>
  %b3 = llvm.extractvalue %fb[3] : !llvm.struct<(i32, i32, i32, i32)>
  %left = nvvm.mma.sync A[%a0, %a1, %a2, %a3] B[%b0, %b1] C[%d0, %d1, %d2, %d3] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %right = nvvm.mma.sync A[%a0, %a1, %a2, %a3] B[%b2, %b3] C[%d4, %d5, %d6, %d7] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %n0 = llvm.extractvalue %left[0] : !llvm.struct<(f32, f32, f32, f32)>
  %n1 = llvm.extractvalue %left[1] : !llvm.struct<(f32, f32, f32, f32)>
  %n2 = llvm.extractvalue %left[2] : !llvm.struct<(f32, f32, f32, f32)>
  %n3 = llvm.extractvalue %left[3] : !llvm.struct<(f32, f32, f32, f32)>
  %n4 = llvm.extractvalue %right[0] : !llvm.struct<(f32, f32, f32, f32)>
  %n5 = llvm.extractvalue %right[1] : !llvm.struct<(f32, f32, f32, f32)>
  %n6 = llvm.extractvalue %right[2] : !llvm.struct<(f32, f32, f32, f32)>
  %n7 = llvm.extractvalue %right[3] : !llvm.struct<(f32, f32, f32, f32)>
  %last = llvm.icmp "eq" %now, %3 : i32
  llvm.cond_br %last, ^store, ^copy(%next, %n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7 : i32, f32, f32, f32, f32, f32, f32, f32, f32)

// A thread has of each half the elements 2 (lane % 4) and the next of the rows
// lane / 4 and lane / 4 + 8.
^store:
  %group = llvm.lshr %lane, %2 : i32
  %inGroup = llvm.and %lane, %3 : i32
  %warpRows = llvm.mul %warp, %16 : i32
  %r0 = llvm.add %rows, %warpRows : i32
  %r1 = llvm.add %r0, %group : i32
  %c0 = llvm.mul %inGroup, %2 : i32
  %c1 = llvm.add %columns, %c0 : i32
  %i0 = llvm.mul %r1, %32 : i32
  %i1 = llvm.add %i0, %c1 : i32
  %p0 = llvm.getelementptr %c[%i1] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %p1 = llvm.getelementptr %p0[8] : (!llvm.ptr) -> !llvm.ptr, f32
  %p2 = llvm.getelementptr %p0[256] : (!llvm.ptr) -> !llvm.ptr, f32
  %p3 = llvm.getelementptr %p0[264] : (!llvm.ptr) -> !llvm.ptr, f32
  %undef = llvm.mlir.undef : vector<2xf32>
  %v0 = llvm.insertelement %n0, %undef[%0 : i32] : vector<2xf32>
  %v1 = llvm.insertelement %n1, %v0[%1 : i32] : vector<2xf32>
  llvm.store %v1, %p0 : vector<2xf32>, !llvm.ptr
  %v2 = llvm.insertelement %n2, %undef[%0 : i32] : vector<2xf32>
  %v3 = llvm.insertelement %n3, %v2[%1 : i32] : vector<2xf32>
  llvm.store %v3, %p2 : vector<2xf32>, !llvm.ptr
  %v4 = llvm.insertelement %n4, %undef[%0 : i32] : vector<2xf32>
  %v5 = llvm.insertelement %n5, %v4[%1 : i32] : vector<2xf32>
  llvm.store %v5, %p1 : vector<2xf32>, !llvm.ptr
  %v6 = llvm.insertelement %n6, %undef[%0 : i32] : vector<2xf32>
  %v7 = llvm.insertelement %n7, %v6[%1 : i32] : vector<2xf32>
  llvm.store %v7, %p3 : vector<2xf32>, !llvm.ptr
  llvm.return
}
