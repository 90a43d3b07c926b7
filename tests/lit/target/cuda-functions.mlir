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
  // CHECK-LABEL: llvm.func @reciprocal_root(
  // CHECK-NOT: llvm.intr.sqrt
  // CHECK: %[[R:.*]] = llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.ftz.f"(%{{.*}}) : (f32) -> f32
  // CHECK-NEXT: llvm.return %[[R]]
  func.func @reciprocal_root(%x: f32) -> f32 {
    %one = arith.constant 1.0 : f32
    %r = math.sqrt %x : f32
    %y = arith.divf %one, %r : f32
    return %y : f32
  }
  // The halves of a word become f32 where they are.
  // CHECK-LABEL: llvm.func @halves(
  // CHECK-SAME: %[[WORD:.*]]: i32
  // CHECK-NOT: llvm.trunc
  // CHECK: %[[LOW:.*]] = llvm.shl %[[WORD]], %{{.*}} : i32
  // CHECK: llvm.bitcast %[[LOW]] : i32 to f32
  // CHECK-NOT: llvm.trunc
  // CHECK: %[[HIGH:.*]] = llvm.and %[[WORD]], %{{.*}} : i32
  // CHECK: llvm.bitcast %[[HIGH]] : i32 to f32
  func.func @halves(%word: i32) -> (f32, f32) {
    %low = arith.trunci %word : i32 to i16
    %l = arith.bitcast %low : i16 to bf16
    %x = arith.extf %l : bf16 to f32
    %c16 = arith.constant 16 : i32
    %shifted = arith.shrui %word, %c16 : i32
    %high = arith.trunci %shifted : i32 to i16
    %h = arith.bitcast %high : i16 to bf16
    %y = arith.extf %h : bf16 to f32
    return %x, %y : f32, f32
  }
  // CHECK-LABEL: llvm.func @tanh(
  // CHECK: llvm.fdiv {{.*}}fastmathFlags = #llvm.fastmath<afn>
  func.func @tanh(%x: f32) -> f32 {
    %y = math.tanh %x : f32
    return %y : f32
  }
}
