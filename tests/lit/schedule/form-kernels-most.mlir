// RUN: tfm-opt %s --sched-form-kernels | FileCheck %s

// A kernel has no more arguments than a GPU takes.
// CHECK-LABEL: func.func @sum_of_many
// CHECK: sched.kernel row
// CHECK-COUNT-100: tfm.add
// CHECK: sched.kernel row
// CHECK-COUNT-19: tfm.add
// CHECK-NOT: sched.kernel
!t = tensor<4x8xf32>
func.func @sum_of_many(
    %x0: !t, %x1: !t, %x2: !t, %x3: !t, %x4: !t, %x5: !t, %x6: !t, %x7: !t, %x8: !t, %x9: !t, %x10: !t, %x11: !t,
    %x12: !t, %x13: !t, %x14: !t, %x15: !t, %x16: !t, %x17: !t, %x18: !t, %x19: !t, %x20: !t, %x21: !t, %x22: !t, %x23: !t,
    %x24: !t, %x25: !t, %x26: !t, %x27: !t, %x28: !t, %x29: !t, %x30: !t, %x31: !t, %x32: !t, %x33: !t, %x34: !t, %x35: !t,
    %x36: !t, %x37: !t, %x38: !t, %x39: !t, %x40: !t, %x41: !t, %x42: !t, %x43: !t, %x44: !t, %x45: !t, %x46: !t, %x47: !t,
    %x48: !t, %x49: !t, %x50: !t, %x51: !t, %x52: !t, %x53: !t, %x54: !t, %x55: !t, %x56: !t, %x57: !t, %x58: !t, %x59: !t,
    %x60: !t, %x61: !t, %x62: !t, %x63: !t, %x64: !t, %x65: !t, %x66: !t, %x67: !t, %x68: !t, %x69: !t, %x70: !t, %x71: !t,
    %x72: !t, %x73: !t, %x74: !t, %x75: !t, %x76: !t, %x77: !t, %x78: !t, %x79: !t, %x80: !t, %x81: !t, %x82: !t, %x83: !t,
    %x84: !t, %x85: !t, %x86: !t, %x87: !t, %x88: !t, %x89: !t, %x90: !t, %x91: !t, %x92: !t, %x93: !t, %x94: !t, %x95: !t,
    %x96: !t, %x97: !t, %x98: !t, %x99: !t, %x100: !t, %x101: !t, %x102: !t, %x103: !t, %x104: !t, %x105: !t, %x106: !t, %x107: !t,
    %x108: !t, %x109: !t, %x110: !t, %x111: !t, %x112: !t, %x113: !t, %x114: !t, %x115: !t, %x116: !t, %x117: !t, %x118: !t, %x119: !t) -> !t {
  %s1 = tfm.add %x0, %x1 : !t  %s2 = tfm.add %s1, %x2 : !t  %s3 = tfm.add %s2, %x3 : !t  %s4 = tfm.add %s3, %x4 : !t
  %s5 = tfm.add %s4, %x5 : !t  %s6 = tfm.add %s5, %x6 : !t  %s7 = tfm.add %s6, %x7 : !t  %s8 = tfm.add %s7, %x8 : !t
  %s9 = tfm.add %s8, %x9 : !t  %s10 = tfm.add %s9, %x10 : !t  %s11 = tfm.add %s10, %x11 : !t  %s12 = tfm.add %s11, %x12 : !t
  %s13 = tfm.add %s12, %x13 : !t  %s14 = tfm.add %s13, %x14 : !t  %s15 = tfm.add %s14, %x15 : !t  %s16 = tfm.add %s15, %x16 : !t
  %s17 = tfm.add %s16, %x17 : !t  %s18 = tfm.add %s17, %x18 : !t  %s19 = tfm.add %s18, %x19 : !t  %s20 = tfm.add %s19, %x20 : !t
  %s21 = tfm.add %s20, %x21 : !t  %s22 = tfm.add %s21, %x22 : !t  %s23 = tfm.add %s22, %x23 : !t  %s24 = tfm.add %s23, %x24 : !t
  %s25 = tfm.add %s24, %x25 : !t  %s26 = tfm.add %s25, %x26 : !t  %s27 = tfm.add %s26, %x27 : !t  %s28 = tfm.add %s27, %x28 : !t
  %s29 = tfm.add %s28, %x29 : !t  %s30 = tfm.add %s29, %x30 : !t  %s31 = tfm.add %s30, %x31 : !t  %s32 = tfm.add %s31, %x32 : !t
  %s33 = tfm.add %s32, %x33 : !t  %s34 = tfm.add %s33, %x34 : !t  %s35 = tfm.add %s34, %x35 : !t  %s36 = tfm.add %s35, %x36 : !t
  %s37 = tfm.add %s36, %x37 : !t  %s38 = tfm.add %s37, %x38 : !t  %s39 = tfm.add %s38, %x39 : !t  %s40 = tfm.add %s39, %x40 : !t
  %s41 = tfm.add %s40, %x41 : !t  %s42 = tfm.add %s41, %x42 : !t  %s43 = tfm.add %s42, %x43 : !t  %s44 = tfm.add %s43, %x44 : !t
  %s45 = tfm.add %s44, %x45 : !t  %s46 = tfm.add %s45, %x46 : !t  %s47 = tfm.add %s46, %x47 : !t  %s48 = tfm.add %s47, %x48 : !t
  %s49 = tfm.add %s48, %x49 : !t  %s50 = tfm.add %s49, %x50 : !t  %s51 = tfm.add %s50, %x51 : !t  %s52 = tfm.add %s51, %x52 : !t
  %s53 = tfm.add %s52, %x53 : !t  %s54 = tfm.add %s53, %x54 : !t  %s55 = tfm.add %s54, %x55 : !t  %s56 = tfm.add %s55, %x56 : !t
  %s57 = tfm.add %s56, %x57 : !t  %s58 = tfm.add %s57, %x58 : !t  %s59 = tfm.add %s58, %x59 : !t  %s60 = tfm.add %s59, %x60 : !t
  %s61 = tfm.add %s60, %x61 : !t  %s62 = tfm.add %s61, %x62 : !t  %s63 = tfm.add %s62, %x63 : !t  %s64 = tfm.add %s63, %x64 : !t
  %s65 = tfm.add %s64, %x65 : !t  %s66 = tfm.add %s65, %x66 : !t  %s67 = tfm.add %s66, %x67 : !t  %s68 = tfm.add %s67, %x68 : !t
  %s69 = tfm.add %s68, %x69 : !t  %s70 = tfm.add %s69, %x70 : !t  %s71 = tfm.add %s70, %x71 : !t  %s72 = tfm.add %s71, %x72 : !t
  %s73 = tfm.add %s72, %x73 : !t  %s74 = tfm.add %s73, %x74 : !t  %s75 = tfm.add %s74, %x75 : !t  %s76 = tfm.add %s75, %x76 : !t
  %s77 = tfm.add %s76, %x77 : !t  %s78 = tfm.add %s77, %x78 : !t  %s79 = tfm.add %s78, %x79 : !t  %s80 = tfm.add %s79, %x80 : !t
  %s81 = tfm.add %s80, %x81 : !t  %s82 = tfm.add %s81, %x82 : !t  %s83 = tfm.add %s82, %x83 : !t  %s84 = tfm.add %s83, %x84 : !t
  %s85 = tfm.add %s84, %x85 : !t  %s86 = tfm.add %s85, %x86 : !t  %s87 = tfm.add %s86, %x87 : !t  %s88 = tfm.add %s87, %x88 : !t
  %s89 = tfm.add %s88, %x89 : !t  %s90 = tfm.add %s89, %x90 : !t  %s91 = tfm.add %s90, %x91 : !t  %s92 = tfm.add %s91, %x92 : !t
  %s93 = tfm.add %s92, %x93 : !t  %s94 = tfm.add %s93, %x94 : !t  %s95 = tfm.add %s94, %x95 : !t  %s96 = tfm.add %s95, %x96 : !t
  %s97 = tfm.add %s96, %x97 : !t  %s98 = tfm.add %s97, %x98 : !t  %s99 = tfm.add %s98, %x99 : !t  %s100 = tfm.add %s99, %x100 : !t
  %s101 = tfm.add %s100, %x101 : !t  %s102 = tfm.add %s101, %x102 : !t  %s103 = tfm.add %s102, %x103 : !t  %s104 = tfm.add %s103, %x104 : !t
  %s105 = tfm.add %s104, %x105 : !t  %s106 = tfm.add %s105, %x106 : !t  %s107 = tfm.add %s106, %x107 : !t  %s108 = tfm.add %s107, %x108 : !t
  %s109 = tfm.add %s108, %x109 : !t  %s110 = tfm.add %s109, %x110 : !t  %s111 = tfm.add %s110, %x111 : !t  %s112 = tfm.add %s111, %x112 : !t
  %s113 = tfm.add %s112, %x113 : !t  %s114 = tfm.add %s113, %x114 : !t  %s115 = tfm.add %s114, %x115 : !t  %s116 = tfm.add %s115, %x116 : !t
  %s117 = tfm.add %s116, %x117 : !t  %s118 = tfm.add %s117, %x118 : !t  %s119 = tfm.add %s118, %x119 : !t
  return %s119 : !t
}

// Nor with what only the end of an epilogue wants: that stays a kernel of its
// own where it is as much as one has.
// CHECK-LABEL: func.func @derivative_of_many
// CHECK: sched.kernel matmul
// CHECK-NOT: tfm.tanh
// CHECK: sched.kernel row
// CHECK-COUNT-100: tfm.tanh
func.func @derivative_of_many(%d: tensor<4x8xf32>, %w: tensor<8x8xf32>, %h: !t) -> !t {
  %y = tfm.matmul %d, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %t1 = tfm.tanh %h : !t  %t2 = tfm.tanh %t1 : !t  %t3 = tfm.tanh %t2 : !t  %t4 = tfm.tanh %t3 : !t  %t5 = tfm.tanh %t4 : !t
  %t6 = tfm.tanh %t5 : !t  %t7 = tfm.tanh %t6 : !t  %t8 = tfm.tanh %t7 : !t  %t9 = tfm.tanh %t8 : !t  %t10 = tfm.tanh %t9 : !t
  %t11 = tfm.tanh %t10 : !t  %t12 = tfm.tanh %t11 : !t  %t13 = tfm.tanh %t12 : !t  %t14 = tfm.tanh %t13 : !t  %t15 = tfm.tanh %t14 : !t
  %t16 = tfm.tanh %t15 : !t  %t17 = tfm.tanh %t16 : !t  %t18 = tfm.tanh %t17 : !t  %t19 = tfm.tanh %t18 : !t  %t20 = tfm.tanh %t19 : !t
  %t21 = tfm.tanh %t20 : !t  %t22 = tfm.tanh %t21 : !t  %t23 = tfm.tanh %t22 : !t  %t24 = tfm.tanh %t23 : !t  %t25 = tfm.tanh %t24 : !t
  %t26 = tfm.tanh %t25 : !t  %t27 = tfm.tanh %t26 : !t  %t28 = tfm.tanh %t27 : !t  %t29 = tfm.tanh %t28 : !t  %t30 = tfm.tanh %t29 : !t
  %t31 = tfm.tanh %t30 : !t  %t32 = tfm.tanh %t31 : !t  %t33 = tfm.tanh %t32 : !t  %t34 = tfm.tanh %t33 : !t  %t35 = tfm.tanh %t34 : !t
  %t36 = tfm.tanh %t35 : !t  %t37 = tfm.tanh %t36 : !t  %t38 = tfm.tanh %t37 : !t  %t39 = tfm.tanh %t38 : !t  %t40 = tfm.tanh %t39 : !t
  %t41 = tfm.tanh %t40 : !t  %t42 = tfm.tanh %t41 : !t  %t43 = tfm.tanh %t42 : !t  %t44 = tfm.tanh %t43 : !t  %t45 = tfm.tanh %t44 : !t
  %t46 = tfm.tanh %t45 : !t  %t47 = tfm.tanh %t46 : !t  %t48 = tfm.tanh %t47 : !t  %t49 = tfm.tanh %t48 : !t  %t50 = tfm.tanh %t49 : !t
  %t51 = tfm.tanh %t50 : !t  %t52 = tfm.tanh %t51 : !t  %t53 = tfm.tanh %t52 : !t  %t54 = tfm.tanh %t53 : !t  %t55 = tfm.tanh %t54 : !t
  %t56 = tfm.tanh %t55 : !t  %t57 = tfm.tanh %t56 : !t  %t58 = tfm.tanh %t57 : !t  %t59 = tfm.tanh %t58 : !t  %t60 = tfm.tanh %t59 : !t
  %t61 = tfm.tanh %t60 : !t  %t62 = tfm.tanh %t61 : !t  %t63 = tfm.tanh %t62 : !t  %t64 = tfm.tanh %t63 : !t  %t65 = tfm.tanh %t64 : !t
  %t66 = tfm.tanh %t65 : !t  %t67 = tfm.tanh %t66 : !t  %t68 = tfm.tanh %t67 : !t  %t69 = tfm.tanh %t68 : !t  %t70 = tfm.tanh %t69 : !t
  %t71 = tfm.tanh %t70 : !t  %t72 = tfm.tanh %t71 : !t  %t73 = tfm.tanh %t72 : !t  %t74 = tfm.tanh %t73 : !t  %t75 = tfm.tanh %t74 : !t
  %t76 = tfm.tanh %t75 : !t  %t77 = tfm.tanh %t76 : !t  %t78 = tfm.tanh %t77 : !t  %t79 = tfm.tanh %t78 : !t  %t80 = tfm.tanh %t79 : !t
  %t81 = tfm.tanh %t80 : !t  %t82 = tfm.tanh %t81 : !t  %t83 = tfm.tanh %t82 : !t  %t84 = tfm.tanh %t83 : !t  %t85 = tfm.tanh %t84 : !t
  %t86 = tfm.tanh %t85 : !t  %t87 = tfm.tanh %t86 : !t  %t88 = tfm.tanh %t87 : !t  %t89 = tfm.tanh %t88 : !t  %t90 = tfm.tanh %t89 : !t
  %t91 = tfm.tanh %t90 : !t  %t92 = tfm.tanh %t91 : !t  %t93 = tfm.tanh %t92 : !t  %t94 = tfm.tanh %t93 : !t  %t95 = tfm.tanh %t94 : !t
  %t96 = tfm.tanh %t95 : !t  %t97 = tfm.tanh %t96 : !t  %t98 = tfm.tanh %t97 : !t  %t99 = tfm.tanh %t98 : !t  %t100 = tfm.tanh %t99 : !t
  %g = tfm.mul %y, %t100 : !t
  return %g : !t
}
