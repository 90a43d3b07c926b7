//===- TfmElementwise.td - elementwise operations -----------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMELEMENTWISE_TD
#define TFM_DIALECT_TFMELEMENTWISE_TD

include "TfmBase.td"

//===----------------------------------------------------------------------===//
// Elementwise, one operand
//===----------------------------------------------------------------------===//

class Tfm_UnaryOp<string mnemonic, int count, string formula, list<Trait> traits = []>
    : Tfm_ElementwiseDiffOp<mnemonic, [SameOperandsAndResultType] # traits> {
  let flops = "" # count;
  let summary = "elementwise " # formula;
  let description = "Computes `y = " # formula # "` of every element.\n\n"
      # "Example:\n\n```mlir\n%y = tfm." # mnemonic # " %x : tensor<4x8xf32>\n```\n";
  let arguments = (ins FloatTensor:$x);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

/// A function of the language, whose formula is in ScalarFunctions.h.
class Tfm_ScalarFunctionOp<string mnemonic, int count, string use, string formula,
    list<Trait> traits = []>
    : Tfm_UnaryOp<mnemonic, count, formula, traits # [ScalarFunctionOpInterface]> {
  let extraClassDeclaration = [{
    static ::tfm::FunctionUse getFunctionUse() { return ::tfm::FunctionUse::}] # use # [{; }
    template <typename Real> static Real apply(Real x) {
      using ::tfm::scalar::}] # mnemonic # [{;
      return }] # mnemonic # [{(x);
    }
    static double valueAt(double x) { return apply(x); }
  }];
}

def NegOp : Tfm_UnaryOp<"neg", 1, "-x", [CheapToRebuild]> { let hasFolder = 1; }
def AbsOp : Tfm_ScalarFunctionOp<"abs", 1, "Any", "|x|; its derivative at 0 is taken as 0", [CheapToRebuild]>;
def ExpOp : Tfm_ScalarFunctionOp<"exp", 1, "PartOfActivation", "e ** x">;
def LogOp : Tfm_ScalarFunctionOp<"log", 1, "Any", "the natural logarithm of x">;
def SqrtOp : Tfm_ScalarFunctionOp<"sqrt", 1, "PartOfNorm", "the square root of x">;
def RsqrtOp : Tfm_ScalarFunctionOp<"rsqrt", 2, "PartOfNorm", "1 / sqrt(x)">;
def TanhOp : Tfm_ScalarFunctionOp<"tanh", 1, "PartOfActivation", "tanh(x)">;
def SigmoidOp : Tfm_ScalarFunctionOp<"sigmoid", 4, "PartOfActivation", "1 / (1 + e ** -x)">;
def ErfOp : Tfm_ScalarFunctionOp<"erf", 1, "PartOfActivation", "the error function of x">;
def SinOp : Tfm_ScalarFunctionOp<"sin", 1, "PartOfRotation", "sin(x), x in radians">;
def CosOp : Tfm_ScalarFunctionOp<"cos", 1, "PartOfRotation", "cos(x), x in radians">;
def ReluOp : Tfm_ScalarFunctionOp<"relu", 1, "Activation", "max(x, 0); its derivative at 0 is 0", [CheapToRebuild]>;
def ReluSquaredOp : Tfm_ScalarFunctionOp<"relu_squared", 2, "Activation", "max(x, 0) ** 2 (So et al. 2021)",
    [CheapToRebuild]>;
def GeluOp : Tfm_ScalarFunctionOp<"gelu", 5, "Activation",
    "x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel 2016)">;
def GeluTanhOp : Tfm_ScalarFunctionOp<"gelu_tanh", 9, "Activation",
    "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2 (Hendrycks and Gimpel 2016, section 2)">;
def SiluOp : Tfm_ScalarFunctionOp<"silu", 4, "Activation", "x / (1 + e ** -x)">;
def SoftplusOp : Tfm_ScalarFunctionOp<"softplus", 3, "PartOfActivation", "log(1 + e ** x), without overflow">;

def StopGradientOp : Tfm_ElementwiseDiffOp<"stop_gradient", [SameOperandsAndResultType, CheapToRebuild]> {
  let flops = "0";
  let summary = "the identity, with derivative zero";
  let description = [{
    Passes its operand through and blocks differentiation.

    Example:

    ```mlir
    %y = tfm.stop_gradient %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def CastOp : Tfm_ElementwiseDiffOp<"cast", [SameOperandsAndResultShape, CheapToRebuild]> {
  let flops = "0";
  let summary = "conversion of the element type";
  let description = [{
    Converts between floats, integers and booleans: a boolean becomes 0 or 1, a
    number becomes true where it is not 0, a float rounds towards zero. f32 becomes
    the nearest bf16, of two the even one; NaN stays NaN. It becomes the nearest
    i8, of two the even one; it has to be within the range of it.

    Example:

    ```mlir
    %y = tfm.cast %x : tensor<4xi1> to tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($y)";
  let hasFolder = 1;
}

def NotOp : Tfm_ElementwiseOp<"not", [SameOperandsAndResultType, CheapToRebuild]> {
  let flops = "0";
  let summary = "elementwise logical not";
  let description = [{
    True where `x` is false, and false where it is true.

    Example:

    ```mlir
    %y = tfm.not %x : tensor<4x8xi1>
    ```
  }];
  let arguments = (ins BoolTensor:$x);
  let results = (outs BoolTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

//===----------------------------------------------------------------------===//
// Elementwise, two operands and more
//===----------------------------------------------------------------------===//

class Tfm_BinaryOp<string mnemonic, string formula, list<Trait> traits = []>
    : Tfm_ElementwiseDiffOp<mnemonic, [SameOperandsAndResultType] # traits> {
  let flops = "1";
  let summary = "elementwise " # formula;
  let description = "Computes `y = " # formula # "` of every pair of elements. Shapes are equal: "
      # "NumPy's broadcasting is spelled with `tfm.broadcast`.\n\n"
      # "Example:\n\n```mlir\n%y = tfm." # mnemonic # " %a, %b : tensor<4x8xf32>\n```\n";
  let arguments = (ins NumberTensor:$a, NumberTensor:$b);
  let results = (outs NumberTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
}

def AddOp : Tfm_BinaryOp<"add", "a + b", [Commutative, CheapToRebuild]> { let hasFolder = 1; }
def SubOp : Tfm_BinaryOp<"sub", "a - b", [CheapToRebuild]> { let hasFolder = 1; }
def MulOp : Tfm_BinaryOp<"mul", "a * b", [Commutative, CheapToRebuild]> { let hasFolder = 1; }
def DivOp : Tfm_BinaryOp<"div", "a / b; integers round towards zero, and x / 0 is 0", [CheapToRebuild]> {
  let hasFolder = 1;
}
def PowOp : Tfm_BinaryOp<"pow", "a ** b; not a number for a < 0 and a b that is not whole"> {
  let arguments = (ins FloatTensor:$a, FloatTensor:$b);
  let results = (outs FloatTensor:$y);
}
def MinOp : Tfm_BinaryOp<"min", "min(a, b); where they are equal each gets half of the cotangent",
    [Commutative, CheapToRebuild]>;
def MaxOp : Tfm_BinaryOp<"max", "max(a, b); where they are equal each gets half of the cotangent",
    [Commutative, CheapToRebuild]>;

def FmaOp : Tfm_ElementwiseDiffOp<"fma", [SameOperandsAndResultType, CheapToRebuild]> {
  let flops = "2";
  let summary = "elementwise a * b + c, rounded once";
  let description = [{
    A step of a `tfm.scan`, and the same bits wherever it stands: whether the
    product of a `tfm.mul` is rounded before a `tfm.add` depends on what else is in
    their kernel.

    Example:

    ```mlir
    %y = tfm.fma %a, %b, %c : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$a, FloatTensor:$b, FloatTensor:$c);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($a)";
}

class Tfm_LogicOp<string mnemonic, string formula>
    : Tfm_ElementwiseOp<mnemonic, [SameOperandsAndResultType, Commutative, CheapToRebuild]> {
  let flops = "0";
  let summary = "elementwise " # formula;
  let description = "Computes `y = " # formula # "` of every pair of booleans. Shapes are equal: "
      # "NumPy's broadcasting is spelled with `tfm.broadcast`.\n\n"
      # "Example:\n\n```mlir\n%y = tfm." # mnemonic # " %a, %b : tensor<4x8xi1>\n```\n";
  let arguments = (ins BoolTensor:$a, BoolTensor:$b);
  let results = (outs BoolTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
}
def AndOp : Tfm_LogicOp<"and", "a and b">;
def OrOp : Tfm_LogicOp<"or", "a or b">;

def CompareKind : I32EnumAttr<"CompareKind", "how two elements are compared", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::tfm";
  let genSpecializedAttr = 0;
}
def CompareKindAttr : EnumAttr<Tfm_Dialect, CompareKind, "compare">;

def CompareOp : Tfm_ElementwiseOp<"compare", [SameTypeOperands, SameOperandsAndResultShape, InferTypeOpAdaptor,
    CheapToRebuild]> {
  let flops = "0";
  let summary = "elementwise comparison";
  let description = [{
    Compares with `eq`, `ne`, `lt`, `le`, `gt` or `ge`. Comparisons with NaN are
    false, except `ne`.

    Example:

    ```mlir
    %y = tfm.compare lt %a, %b : tensor<4x8xi32>
    ```
  }];
  let arguments = (ins CompareKindAttr:$kind, NumberTensor:$a, NumberTensor:$b);
  let results = (outs BoolTensor:$y);
  let assemblyFormat = "$kind $a `,` $b attr-dict `:` type($a)";
}

def SelectOp : Tfm_ElementwiseDiffOp<"select", [SameOperandsAndResultShape, AllTypesMatch<["a", "b", "y"]>,
    CheapToRebuild]> {
  let flops = "0";
  let summary = "a where the condition holds, b elsewhere";
  let description = [{
    Chooses element by element. Both alternatives are computed; the one that is
    not chosen gets the cotangent 0.

    Example:

    ```mlir
    %y = tfm.select %c, %a, %b : tensor<4x8xi1>, tensor<4x8xf32>
    ```
  }];
  let arguments = (ins BoolTensor:$condition, AnyTfmTensor:$a, AnyTfmTensor:$b);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` type($condition) `,` type($a)";
}

#endif // TFM_DIALECT_TFMELEMENTWISE_TD
