// RUN: tfm-opt %s --sched-emit-kernels="target=cpu:x86-64-v4" | FileCheck %s

// Products of few rows read B where it lies, along n or along k; those of more
// than two register tiles have are made in tiles. So are those with weights of 4
// bits, whose panels are of floats.
sched.program @p {
  %x = sched.buffer activation "x" at 0 live [0, 3] : memref<8192xi8>
  %w = sched.buffer activation "w" at 8192 live [0, 3] : memref<12288xi8>
  %y = sched.buffer activation "y" at 20480 live [0, 3] : memref<8192xi8>
  %a8 = sched.view %x at 0 : memref<8192xi8> to memref<8x64xf32, strided<[64, 1]>>
  %a29 = sched.view %x at 0 : memref<8192xi8> to memref<29x64xf32, strided<[64, 1]>>
  %kn = sched.view %w at 0 : memref<12288xi8> to memref<64x48xf32, strided<[48, 1]>>
  %nk = sched.view %w at 0 : memref<12288xi8> to memref<48x64xf32, strided<[64, 1]>>
  %bytes = sched.view %w at 0 : memref<12288xi8> to memref<48x32xi8, strided<[32, 1]>>
  %table = sched.view %w at 4096 : memref<12288xi8> to memref<48x2xbf16, strided<[2, 1]>>
  %c8 = sched.view %y at 0 : memref<8192xi8> to memref<8x48xf32, strided<[48, 1]>>
  %c29 = sched.view %y at 0 : memref<8192xi8> to memref<29x48xf32, strided<[48, 1]>>
  sched.launch matmul 8 by 48 reads(%a8, %kn : memref<8x64xf32, strided<[64, 1]>>, memref<64x48xf32, strided<[48, 1]>>)
      writes(%c8 : memref<8x48xf32, strided<[48, 1]>>) [memory, memory, point] {
  ^bb0(%p: memref<8x64xf32, strided<[64, 1]>>, %q: memref<64x48xf32, strided<[48, 1]>>, %r: memref<8x48xf32, strided<[48, 1]>>):
    %s = sched.read %p : memref<8x64xf32, strided<[64, 1]>> to tensor<8x64xf32>
    %t = sched.read %q : memref<64x48xf32, strided<[48, 1]>> to tensor<64x48xf32>
    %u = tfm.matmul %s, %t : tensor<8x64xf32>, tensor<64x48xf32>
    sched.write %u, %r : tensor<8x48xf32> to memref<8x48xf32, strided<[48, 1]>>
  }
  sched.launch matmul 8 by 48 reads(%a8, %nk : memref<8x64xf32, strided<[64, 1]>>, memref<48x64xf32, strided<[64, 1]>>)
      writes(%c8 : memref<8x48xf32, strided<[48, 1]>>) [memory, memory, point] {
  ^bb0(%p: memref<8x64xf32, strided<[64, 1]>>, %q: memref<48x64xf32, strided<[64, 1]>>, %r: memref<8x48xf32, strided<[48, 1]>>):
    %s = sched.read %p : memref<8x64xf32, strided<[64, 1]>> to tensor<8x64xf32>
    %t = sched.read %q : memref<48x64xf32, strided<[64, 1]>> to tensor<48x64xf32>
    %u = tfm.matmul %s, %t transpose_b : tensor<8x64xf32>, tensor<48x64xf32>
    sched.write %u, %r : tensor<8x48xf32> to memref<8x48xf32, strided<[48, 1]>>
  }
  sched.launch matmul 29 by 48 reads(%a29, %kn : memref<29x64xf32, strided<[64, 1]>>, memref<64x48xf32, strided<[48, 1]>>)
      writes(%c29 : memref<29x48xf32, strided<[48, 1]>>) [memory, memory, point] {
  ^bb0(%p: memref<29x64xf32, strided<[64, 1]>>, %q: memref<64x48xf32, strided<[48, 1]>>, %r: memref<29x48xf32, strided<[48, 1]>>):
    %s = sched.read %p : memref<29x64xf32, strided<[64, 1]>> to tensor<29x64xf32>
    %t = sched.read %q : memref<64x48xf32, strided<[48, 1]>> to tensor<64x48xf32>
    %u = tfm.matmul %s, %t : tensor<29x64xf32>, tensor<64x48xf32>
    sched.write %u, %r : tensor<29x48xf32> to memref<29x48xf32, strided<[48, 1]>>
  }
  sched.launch matmul 8 by 48 reads(%a8, %bytes, %table, %table : memref<8x64xf32, strided<[64, 1]>>, memref<48x32xi8, strided<[32, 1]>>, memref<48x2xbf16, strided<[2, 1]>>, memref<48x2xbf16, strided<[2, 1]>>)
      writes(%c8 : memref<8x48xf32, strided<[48, 1]>>) [memory, memory, memory, memory, point] {
  ^bb0(%p: memref<8x64xf32, strided<[64, 1]>>, %n: memref<48x32xi8, strided<[32, 1]>>, %k: memref<48x2xbf16, strided<[2, 1]>>, %l: memref<48x2xbf16, strided<[2, 1]>>, %r: memref<8x48xf32, strided<[48, 1]>>):
    %o = sched.read %p : memref<8x64xf32, strided<[64, 1]>> to tensor<8x64xf32>
    %t = sched.read %n : memref<48x32xi8, strided<[32, 1]>> to tensor<48x32xi8>
    %v = sched.read %k : memref<48x2xbf16, strided<[2, 1]>> to tensor<48x2xbf16>
    %z = sched.read %l : memref<48x2xbf16, strided<[2, 1]>> to tensor<48x2xbf16>
    %d = tfm.dequantise %t, %v, %z : tensor<48x32xi8>, tensor<48x2xbf16> to tensor<48x64xf32>
    %u = tfm.matmul %o, %d transpose_b : tensor<8x64xf32>, tensor<48x64xf32>
    sched.write %u, %r : tensor<8x48xf32> to memref<8x48xf32, strided<[48, 1]>>
  }
  sched.launch matmul 29 by 48 reads(%a29, %bytes, %table, %table : memref<29x64xf32, strided<[64, 1]>>, memref<48x32xi8, strided<[32, 1]>>, memref<48x2xbf16, strided<[2, 1]>>, memref<48x2xbf16, strided<[2, 1]>>)
      writes(%c29 : memref<29x48xf32, strided<[48, 1]>>) [memory, memory, memory, memory, point] {
  ^bb0(%p: memref<29x64xf32, strided<[64, 1]>>, %n: memref<48x32xi8, strided<[32, 1]>>, %k: memref<48x2xbf16, strided<[2, 1]>>, %l: memref<48x2xbf16, strided<[2, 1]>>, %r: memref<29x48xf32, strided<[48, 1]>>):
    %o = sched.read %p : memref<29x64xf32, strided<[64, 1]>> to tensor<29x64xf32>
    %t = sched.read %n : memref<48x32xi8, strided<[32, 1]>> to tensor<48x32xi8>
    %v = sched.read %k : memref<48x2xbf16, strided<[2, 1]>> to tensor<48x2xbf16>
    %z = sched.read %l : memref<48x2xbf16, strided<[2, 1]>> to tensor<48x2xbf16>
    %d = tfm.dequantise %t, %v, %z : tensor<48x32xi8>, tensor<48x2xbf16> to tensor<48x64xf32>
    %u = tfm.matmul %o, %d transpose_b : tensor<29x64xf32>, tensor<48x64xf32>
    sched.write %u, %r : tensor<29x48xf32> to memref<29x48xf32, strided<[48, 1]>>
  }
}

// CHECK-LABEL: func.func @kernel0
// CHECK: call @tfm.rows.4x3
// CHECK: call @tfm.rows.4x3
// CHECK-LABEL: func.func @kernel1
// CHECK: call @tfm.dot.8x2
// CHECK-LABEL: func.func @kernel2
// CHECK: call @tfm.micro.
// CHECK-LABEL: func.func @kernel3
// CHECK: call @tfm.dot.4x2.groups
// CHECK-LABEL: func.func @kernel4
// CHECK: call @tfm.pack.groups
// CHECK: call @tfm.micro.
