// RUN: tfm-opt %s --cuda-lower-kernels | FileCheck %s

// Powers are made of the instruction for those of two, and a tanh is one
// quotient, which need not be rounded as IEEE wants it.
module {
  // CHECK-LABEL: llvm.func @exp2(
  // CHECK-NEXT: %[[P:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%{{.*}}) : (f32) -> f32
  // CHECK-NEXT: llvm.return %[[P]]
  func.func @exp2(%x: f32) -> f32 {
    %y = math.exp2 %x : f32
    return %y : f32
  }
  // What rounding x log2 e has lost is a factor of its own.
  // CHECK-LABEL: llvm.func @exp(
  // CHECK: llvm.intr.maximum
  // CHECK: llvm.intr.minimum
  // CHECK: %[[Y:.*]] = llvm.fmul
  // CHECK: llvm.intr.fma
  // CHECK: llvm.intr.fma
  // CHECK: %[[P:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%[[Y]]) : (f32) -> f32
  // CHECK: %[[F:.*]] = llvm.intr.fma
  // CHECK: llvm.fmul %[[P]], %[[F]]
  func.func @exp(%x: f32) -> f32 {
    %y = math.exp %x : f32
    return %y : f32
  }
  // CHECK-LABEL: llvm.func @tanh(
  // CHECK: llvm.fdiv {{.*}}fastmathFlags = #llvm.fastmath<afn>
  func.func @tanh(%x: f32) -> f32 {
    %y = math.tanh %x : f32
    return %y : f32
  }
}
