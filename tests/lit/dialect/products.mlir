// RUN: tfm-opt %s | FileCheck %s
// RUN: tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s


// Matrix products, transposed and batched.
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>, %c: tensor<3x5x4xf32>, %d: tensor<8x16xf32>) {
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<4x8xf32>, tensor<16x8xf32>
  %y = tfm.matmul %a, %b transpose_b : tensor<4x8xf32>, tensor<16x8xf32>
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x16xf32> accumulate f64
  %wide = tfm.matmul %a, %d : tensor<4x8xf32>, tensor<8x16xf32> accumulate f64
  // Sums have the type that they are added up in.
  // CHECK: tfm.neg %{{.*}} : tensor<4x16xf64>
  %w = tfm.neg %wide : tensor<4x16xf64>
  %a8 = tfm.cast %a : tensor<4x8xf32> to tensor<4x8xbf16>
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<4x8xbf16>, tensor<4x8xbf16>{{$}}
  %narrow = tfm.matmul %a8, %a8 transpose_b : tensor<4x8xbf16>, tensor<4x8xbf16>
  // CHECK: tfm.neg %{{.*}} : tensor<4x4xf32>
  %v = tfm.neg %narrow : tensor<4x4xf32>
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} transpose_a : tensor<3x5x4xf32>, tensor<3x5x4xf32>{{$}}
  %z = tfm.matmul %c, %c transpose_a : tensor<3x5x4xf32>, tensor<3x5x4xf32>
  // CHECK: tfm.neg %{{.*}} : tensor<4x16xf32>
  %n = tfm.neg %y : tensor<4x16xf32>
  return
}

// Weights of 8 bits in panels, the last of which is not full.
func.func @panels(%p: tensor<2x10x32x4xi8>, %i: tensor<4x39xi8>) {
  // CHECK: tfm.unpack %{{.*}} : tensor<2x10x32x4xi8> to tensor<40x39xi8>
  %w = tfm.unpack %p : tensor<2x10x32x4xi8> to tensor<40x39xi8>
  %y = tfm.matmul %i, %w transpose_b : tensor<4x39xi8>, tensor<40x39xi8> accumulate i32
  return
}

// Weights of 4 bits, whose last groups are short, beside floats and beside
// integers.
func.func @weights(%q: tensor<16x32xi8>, %s: tensor<16x2xbf16>, %x: tensor<4x40xf32>, %i: tensor<4x40xi8>) {
  // CHECK: tfm.dequantise %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x32xi8>, tensor<16x2xbf16> to tensor<16x40xf32>
  %w = tfm.dequantise %q, %s, %s : tensor<16x32xi8>, tensor<16x2xbf16> to tensor<16x40xf32>
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<4x40xf32>, tensor<16x40xf32>
  %y = tfm.matmul %x, %w transpose_b : tensor<4x40xf32>, tensor<16x40xf32>
  // CHECK: tfm.matmul %{{.*}}, %{{.*}} transpose_b : tensor<4x40xi8>, tensor<16x40xf32> accumulate f32
  %z = tfm.matmul %i, %w transpose_b : tensor<4x40xi8>, tensor<16x40xf32> accumulate f32
  return
}

// Rows of a table, and adding to them.
func.func @table(%table: tensor<50x8xf32>, %ids: tensor<4x6xi32>) {
  // CHECK: tfm.gather %{{.*}}, %{{.*}} : tensor<50x8xf32>, tensor<4x6xi32>
  %y = tfm.gather %table, %ids : tensor<50x8xf32>, tensor<4x6xi32>
  // CHECK: tfm.scatter_add %{{.*}}, %{{.*}}, %{{.*}} : tensor<50x8xf32>, tensor<4x6xi32>, tensor<4x6x8xf32>
  %z = tfm.scatter_add %table, %ids, %y : tensor<50x8xf32>, tensor<4x6xi32>, tensor<4x6x8xf32>
  return
}

// The newest keys of two sequences, written over their caches.
func.func @cache(%base: tensor<2x4x64x16xf32>, %new: tensor<2x4x3x16xf32>, %at: tensor<2xi32>) {
  // CHECK: tfm.cache_update %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x64x16xf32>, tensor<2x4x3x16xf32>, tensor<2xi32>
  %y = tfm.cache_update %base, %new, %at : tensor<2x4x64x16xf32>, tensor<2x4x3x16xf32>, tensor<2xi32>
  // CHECK: tfm.neg %{{.*}} : tensor<2x4x64x16xf32>
  %n = tfm.neg %y : tensor<2x4x64x16xf32>
  return
}
