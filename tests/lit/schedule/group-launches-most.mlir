// RUN: tfm-opt %s --tfm-to-sched=target=cuda | FileCheck %s

// A kernel has no more arguments than a GPU takes: five for each of these
// products, and 512 in all.
// CHECK-LABEL: sched.program @products
// CHECK: sched.group {
// CHECK-COUNT-102: sched.launch matmul
// CHECK: sched.group {
// CHECK-COUNT-8: sched.launch matmul
// CHECK-NOT: sched.launch
!x = tensor<1x64xf32>
!w = tensor<8x64xf32>
!y = tensor<1x8xf32>
func.func @products(%x: !x, %w0: !w, %w1: !w, %w2: !w, %w3: !w, %w4: !w, %w5: !w, %w6: !w, %w7: !w, %w8: !w,
    %w9: !w, %w10: !w, %w11: !w, %w12: !w, %w13: !w, %w14: !w, %w15: !w, %w16: !w, %w17: !w, %w18: !w, %w19: !w,
    %w20: !w, %w21: !w, %w22: !w, %w23: !w, %w24: !w, %w25: !w, %w26: !w, %w27: !w, %w28: !w, %w29: !w, %w30: !w,
    %w31: !w, %w32: !w, %w33: !w, %w34: !w, %w35: !w, %w36: !w, %w37: !w, %w38: !w, %w39: !w, %w40: !w, %w41: !w,
    %w42: !w, %w43: !w, %w44: !w, %w45: !w, %w46: !w, %w47: !w, %w48: !w, %w49: !w, %w50: !w, %w51: !w, %w52: !w,
    %w53: !w, %w54: !w, %w55: !w, %w56: !w, %w57: !w, %w58: !w, %w59: !w, %w60: !w, %w61: !w, %w62: !w, %w63: !w,
    %w64: !w, %w65: !w, %w66: !w, %w67: !w, %w68: !w, %w69: !w, %w70: !w, %w71: !w, %w72: !w, %w73: !w, %w74: !w,
    %w75: !w, %w76: !w, %w77: !w, %w78: !w, %w79: !w, %w80: !w, %w81: !w, %w82: !w, %w83: !w, %w84: !w, %w85: !w,
    %w86: !w, %w87: !w, %w88: !w, %w89: !w, %w90: !w, %w91: !w, %w92: !w, %w93: !w, %w94: !w, %w95: !w, %w96: !w,
    %w97: !w, %w98: !w, %w99: !w, %w100: !w, %w101: !w, %w102: !w, %w103: !w, %w104: !w, %w105: !w, %w106: !w,
    %w107: !w, %w108: !w, %w109: !w)
    -> (!y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y,
    !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y,
    !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y,
    !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y) {
  %y0 = tfm.matmul %x, %w0 transpose_b : !x, !w
  %y1 = tfm.matmul %x, %w1 transpose_b : !x, !w
  %y2 = tfm.matmul %x, %w2 transpose_b : !x, !w
  %y3 = tfm.matmul %x, %w3 transpose_b : !x, !w
  %y4 = tfm.matmul %x, %w4 transpose_b : !x, !w
  %y5 = tfm.matmul %x, %w5 transpose_b : !x, !w
  %y6 = tfm.matmul %x, %w6 transpose_b : !x, !w
  %y7 = tfm.matmul %x, %w7 transpose_b : !x, !w
  %y8 = tfm.matmul %x, %w8 transpose_b : !x, !w
  %y9 = tfm.matmul %x, %w9 transpose_b : !x, !w
  %y10 = tfm.matmul %x, %w10 transpose_b : !x, !w
  %y11 = tfm.matmul %x, %w11 transpose_b : !x, !w
  %y12 = tfm.matmul %x, %w12 transpose_b : !x, !w
  %y13 = tfm.matmul %x, %w13 transpose_b : !x, !w
  %y14 = tfm.matmul %x, %w14 transpose_b : !x, !w
  %y15 = tfm.matmul %x, %w15 transpose_b : !x, !w
  %y16 = tfm.matmul %x, %w16 transpose_b : !x, !w
  %y17 = tfm.matmul %x, %w17 transpose_b : !x, !w
  %y18 = tfm.matmul %x, %w18 transpose_b : !x, !w
  %y19 = tfm.matmul %x, %w19 transpose_b : !x, !w
  %y20 = tfm.matmul %x, %w20 transpose_b : !x, !w
  %y21 = tfm.matmul %x, %w21 transpose_b : !x, !w
  %y22 = tfm.matmul %x, %w22 transpose_b : !x, !w
  %y23 = tfm.matmul %x, %w23 transpose_b : !x, !w
  %y24 = tfm.matmul %x, %w24 transpose_b : !x, !w
  %y25 = tfm.matmul %x, %w25 transpose_b : !x, !w
  %y26 = tfm.matmul %x, %w26 transpose_b : !x, !w
  %y27 = tfm.matmul %x, %w27 transpose_b : !x, !w
  %y28 = tfm.matmul %x, %w28 transpose_b : !x, !w
  %y29 = tfm.matmul %x, %w29 transpose_b : !x, !w
  %y30 = tfm.matmul %x, %w30 transpose_b : !x, !w
  %y31 = tfm.matmul %x, %w31 transpose_b : !x, !w
  %y32 = tfm.matmul %x, %w32 transpose_b : !x, !w
  %y33 = tfm.matmul %x, %w33 transpose_b : !x, !w
  %y34 = tfm.matmul %x, %w34 transpose_b : !x, !w
  %y35 = tfm.matmul %x, %w35 transpose_b : !x, !w
  %y36 = tfm.matmul %x, %w36 transpose_b : !x, !w
  %y37 = tfm.matmul %x, %w37 transpose_b : !x, !w
  %y38 = tfm.matmul %x, %w38 transpose_b : !x, !w
  %y39 = tfm.matmul %x, %w39 transpose_b : !x, !w
  %y40 = tfm.matmul %x, %w40 transpose_b : !x, !w
  %y41 = tfm.matmul %x, %w41 transpose_b : !x, !w
  %y42 = tfm.matmul %x, %w42 transpose_b : !x, !w
  %y43 = tfm.matmul %x, %w43 transpose_b : !x, !w
  %y44 = tfm.matmul %x, %w44 transpose_b : !x, !w
  %y45 = tfm.matmul %x, %w45 transpose_b : !x, !w
  %y46 = tfm.matmul %x, %w46 transpose_b : !x, !w
  %y47 = tfm.matmul %x, %w47 transpose_b : !x, !w
  %y48 = tfm.matmul %x, %w48 transpose_b : !x, !w
  %y49 = tfm.matmul %x, %w49 transpose_b : !x, !w
  %y50 = tfm.matmul %x, %w50 transpose_b : !x, !w
  %y51 = tfm.matmul %x, %w51 transpose_b : !x, !w
  %y52 = tfm.matmul %x, %w52 transpose_b : !x, !w
  %y53 = tfm.matmul %x, %w53 transpose_b : !x, !w
  %y54 = tfm.matmul %x, %w54 transpose_b : !x, !w
  %y55 = tfm.matmul %x, %w55 transpose_b : !x, !w
  %y56 = tfm.matmul %x, %w56 transpose_b : !x, !w
  %y57 = tfm.matmul %x, %w57 transpose_b : !x, !w
  %y58 = tfm.matmul %x, %w58 transpose_b : !x, !w
  %y59 = tfm.matmul %x, %w59 transpose_b : !x, !w
  %y60 = tfm.matmul %x, %w60 transpose_b : !x, !w
  %y61 = tfm.matmul %x, %w61 transpose_b : !x, !w
  %y62 = tfm.matmul %x, %w62 transpose_b : !x, !w
  %y63 = tfm.matmul %x, %w63 transpose_b : !x, !w
  %y64 = tfm.matmul %x, %w64 transpose_b : !x, !w
  %y65 = tfm.matmul %x, %w65 transpose_b : !x, !w
  %y66 = tfm.matmul %x, %w66 transpose_b : !x, !w
  %y67 = tfm.matmul %x, %w67 transpose_b : !x, !w
  %y68 = tfm.matmul %x, %w68 transpose_b : !x, !w
  %y69 = tfm.matmul %x, %w69 transpose_b : !x, !w
  %y70 = tfm.matmul %x, %w70 transpose_b : !x, !w
  %y71 = tfm.matmul %x, %w71 transpose_b : !x, !w
  %y72 = tfm.matmul %x, %w72 transpose_b : !x, !w
  %y73 = tfm.matmul %x, %w73 transpose_b : !x, !w
  %y74 = tfm.matmul %x, %w74 transpose_b : !x, !w
  %y75 = tfm.matmul %x, %w75 transpose_b : !x, !w
  %y76 = tfm.matmul %x, %w76 transpose_b : !x, !w
  %y77 = tfm.matmul %x, %w77 transpose_b : !x, !w
  %y78 = tfm.matmul %x, %w78 transpose_b : !x, !w
  %y79 = tfm.matmul %x, %w79 transpose_b : !x, !w
  %y80 = tfm.matmul %x, %w80 transpose_b : !x, !w
  %y81 = tfm.matmul %x, %w81 transpose_b : !x, !w
  %y82 = tfm.matmul %x, %w82 transpose_b : !x, !w
  %y83 = tfm.matmul %x, %w83 transpose_b : !x, !w
  %y84 = tfm.matmul %x, %w84 transpose_b : !x, !w
  %y85 = tfm.matmul %x, %w85 transpose_b : !x, !w
  %y86 = tfm.matmul %x, %w86 transpose_b : !x, !w
  %y87 = tfm.matmul %x, %w87 transpose_b : !x, !w
  %y88 = tfm.matmul %x, %w88 transpose_b : !x, !w
  %y89 = tfm.matmul %x, %w89 transpose_b : !x, !w
  %y90 = tfm.matmul %x, %w90 transpose_b : !x, !w
  %y91 = tfm.matmul %x, %w91 transpose_b : !x, !w
  %y92 = tfm.matmul %x, %w92 transpose_b : !x, !w
  %y93 = tfm.matmul %x, %w93 transpose_b : !x, !w
  %y94 = tfm.matmul %x, %w94 transpose_b : !x, !w
  %y95 = tfm.matmul %x, %w95 transpose_b : !x, !w
  %y96 = tfm.matmul %x, %w96 transpose_b : !x, !w
  %y97 = tfm.matmul %x, %w97 transpose_b : !x, !w
  %y98 = tfm.matmul %x, %w98 transpose_b : !x, !w
  %y99 = tfm.matmul %x, %w99 transpose_b : !x, !w
  %y100 = tfm.matmul %x, %w100 transpose_b : !x, !w
  %y101 = tfm.matmul %x, %w101 transpose_b : !x, !w
  %y102 = tfm.matmul %x, %w102 transpose_b : !x, !w
  %y103 = tfm.matmul %x, %w103 transpose_b : !x, !w
  %y104 = tfm.matmul %x, %w104 transpose_b : !x, !w
  %y105 = tfm.matmul %x, %w105 transpose_b : !x, !w
  %y106 = tfm.matmul %x, %w106 transpose_b : !x, !w
  %y107 = tfm.matmul %x, %w107 transpose_b : !x, !w
  %y108 = tfm.matmul %x, %w108 transpose_b : !x, !w
  %y109 = tfm.matmul %x, %w109 transpose_b : !x, !w
  return %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7, %y8, %y9, %y10, %y11, %y12, %y13, %y14, %y15, %y16, %y17, %y18,
    %y19, %y20, %y21, %y22, %y23, %y24, %y25, %y26, %y27, %y28, %y29, %y30, %y31, %y32, %y33, %y34, %y35, %y36,
    %y37, %y38, %y39, %y40, %y41, %y42, %y43, %y44, %y45, %y46, %y47, %y48, %y49, %y50, %y51, %y52, %y53, %y54,
    %y55, %y56, %y57, %y58, %y59, %y60, %y61, %y62, %y63, %y64, %y65, %y66, %y67, %y68, %y69, %y70, %y71, %y72,
    %y73, %y74, %y75, %y76, %y77, %y78, %y79, %y80, %y81, %y82, %y83, %y84, %y85, %y86, %y87, %y88, %y89, %y90,
    %y91, %y92, %y93, %y94, %y95, %y96, %y97, %y98, %y99, %y100, %y101, %y102, %y103, %y104, %y105, %y106, %y107,
    %y108, %y109
    : !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y,
    !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y,
    !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y,
    !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y, !y
}
