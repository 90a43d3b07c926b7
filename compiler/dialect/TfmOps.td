//===- TfmOps.td - the operations of the tfm dialect --------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_TFMOPS_TD
#define TFM_DIALECT_TFMOPS_TD

include "TfmElementwise.td"

//===----------------------------------------------------------------------===//
// Constants, parameters, positions
//===----------------------------------------------------------------------===//

def ConstantOp : Tfm_Op<"constant", [Pure, ConstantLike, InferTypeOpAdaptor, CheapToRebuild]> {
  let flops = "0";
  let summary = "a tensor known while compiling";
  let description = [{
    The value of a `const` of the language, or a scalar of a formula. Its
    elements are in the module itself (a dense attribute, no resource).

    Example:

    ```mlir
    %c = tfm.constant dense<1.0> : tensor<8xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "attr-dict $value";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def ParamOp : Tfm_Op<"param", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let flops = "0";
  let summary = "declares a parameter of the model";
  let description = [{
    Declares a tensor that training changes and checkpoints hold. The symbol is
    its dotted path, with `*` for the index of each enclosing repeat; `type` has
    one leading dimension per `*` (all layers stacked). `names` lists the
    checkpoint's names, one per layer in row-major order; without it the `*`
    count from 0. `aliases` are further paths of the same tensor (ties).

    `dims` are one layer's dimensions in the user's words; `init` is a
    dictionary with a `kind` and numeric `args`: `zeros`, `ones`, `normal` and
    `truncated_normal` (mean, standard deviation), `uniform` (low, high),
    `constant` (the value). Its learning rate is that of all times `rate`,
    which is positive; with `no_decay` weight decay leaves it alone, whatever
    its rank.

    `output_axis` is the axis of one layer along which the products that the
    parameter is a weight of have their results, or ids choose rows of it: what
    quantisation has a scale for each index of. With a `scale` the parameter is
    one of 8 bits: what checkpoints hold is each element times the element of
    the parameter `scale`, `[..., outputs]`, of its output. It is stored as
    `[..., outputs, terms]`, whichever of the last two axes is `output_axis`
    there. With a `minimum`, too, it is one of 4 bits, whose bytes, scales and
    minima are those of `tfm.dequantise`: what checkpoints hold is what that
    gives, of so many `terms`. With `terms`, but no `minimum`, its integers of 8
    bits lie in panels, from which `tfm.unpack` takes them. One of bf16 that is
    `transposed` is stored as `[..., outputs, terms]`, too, where checkpoints
    have its outputs along the last axis.

    Example:

    ```mlir
    tfm.param @"h.*.attn.c_attn.weight" : tensor<12x768x2304xf32>
      {dims = ["width", "3*width"], init = {kind = "normal", args = [0.0, 0.02]}, trainable = true}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<WeightTensor>:$type,
      DefaultValuedAttr<StrArrayAttr, "{}">:$dims, DictionaryAttr:$init,
      DefaultValuedAttr<BoolAttr, "true">:$trainable, OptionalAttr<F64Attr>:$rate,
      UnitAttr:$no_decay,
      OptionalAttr<StrArrayAttr>:$names, OptionalAttr<StrArrayAttr>:$aliases,
      OptionalAttr<I64Attr>:$output_axis, OptionalAttr<FlatSymbolRefAttr>:$scale,
      OptionalAttr<FlatSymbolRefAttr>:$minimum, OptionalAttr<I64Attr>:$terms,
      UnitAttr:$transposed);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The type of all layers together, [layers..., dims...].
    ::mlir::RankedTensorType getTensorType();
    /// How many enclosing repeats the parameter has: the leading dimensions of
    /// its type that count layers.
    int64_t getNumStackedDims();
    /// The checkpoint's names, one per layer in row-major order.
    ::llvm::SmallVector<std::string> getLayerNames();
    /// `rate`; 1 where it has none.
    double getRateOrOne();
    /// The `args` of `init`, which are numbers.
    ::llvm::SmallVector<double> getInitArgs();
  }];
}

def GetParamOp : Tfm_Op<"get_param", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let flops = "0";
  let summary = "the value of a parameter";
  let description = [{
    Reads a parameter, all layers stacked. It may not stand inside a
    `tfm.repeat`: there a parameter comes in as a stacked or shared operand. Of
    another type than the parameter, bf16, it is the copy that `@update` and
    `@refresh` round to it.

    Example:

    ```mlir
    %w = tfm.get_param @"wte.weight" : tensor<50257x768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param);
  let results = (outs WeightTensor:$value);
  let assemblyFormat = "$param attr-dict `:` type($value)";
}

def IotaOp : Tfm_Op<"iota", [Pure, RowKernelOpInterface, CheapToRebuild]> {
  let flops = "0";
  let summary = "0, 1, 2, ... along one axis";
  let description = [{
    Element `[i0, i1, ...]` of the result is the index along `axis`.

    Example:

    ```mlir
    %i = tfm.iota 1 : tensor<4x8xi32>
    ```
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs IntTensor:$y);
  let assemblyFormat = "$axis attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def PositionsOp : Tfm_PureOp<"positions", [SameOperandsAndResultType, RowKernelOpInterface, CheapToRebuild]> {
  let flops = "0";
  let axes = "::tfm::AxisMap::kept(place)";
  let summary = "the position of every token in its sequence";
  let description = [{
    For tokens `[B, T]`, element `[b, t]` is `t` in the whole-sequence forward.
    Deriving the decode step replaces it by the sequence's runtime position.

    Example:

    ```mlir
    %p = tfm.positions %tokens : tensor<4x8xi32>
    ```
  }];
  let arguments = (ins IntTensor:$tokens);
  let results = (outs IntTensor:$y);
  let assemblyFormat = "$tokens attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

def BroadcastOp : Tfm_DiffOp<"broadcast", [RowKernelOpInterface, CheapToRebuild]> {
  let flops = "0";
  let summary = "NumPy's broadcast to a given shape";
  let description = [{
    Shapes are aligned at their last axes; a missing axis, or one of size 1, is
    repeated.

    Example:

    ```mlir
    %y = tfm.broadcast %x : tensor<8xf32> to tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def ReshapeOp : Tfm_DiffOp<"reshape", [RowKernelOpInterface, CheapToRebuild]> {
  let flops = "0";
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Element `i` of the result, counted in row-major order, is element `i` of the
    operand. Both have as many elements and one element type.

    Example:

    ```mlir
    %y = tfm.reshape %x : tensor<4x8xf32> to tensor<4x2x4xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def TransposeOp : Tfm_DiffOp<"transpose", [InferTypeOpAdaptor, RowKernelOpInterface, CheapToRebuild]> {
  let flops = "0";
  let summary = "permutes the axes";
  let description = [{
    Axis `i` of the result is axis `permutation[i]` of the operand.

    Example:

    ```mlir
    %y = tfm.transpose %x [0, 2, 1] : tensor<4x8x2xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$x $permutation attr-dict `:` type($x)";
  let hasFolder = 1;
}

def SliceOp : Tfm_DiffOp<"slice", [InferTypeOpAdaptor, RowKernelOpInterface, CheapToRebuild]> {
  let flops = "0";
  let axes = [{::tfm::AxisMap::keptBut(getAxis(), place, "a slice of the positions (`shift` has a cache)")}];
  let summary = "a range of one axis";
  let description = [{
    Elements `start <= i < start + size` of `axis`.

    Example:

    ```mlir
    %y = tfm.slice %x axis 1 start 2 size 4 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x, I64Attr:$axis, I64Attr:$start, I64Attr:$size);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$x `axis` $axis `start` $start `size` $size attr-dict `:` type($x)";
  let hasFolder = 1;
}

def PadOp : Tfm_DiffOp<"pad", [InferTypeOpAdaptor, CheapToRebuild]> {
  let flops = "0";
  let axes = [{::tfm::AxisMap::keptBut(getAxis(), place, "positions are padded")}];
  let summary = "zeros before and after one axis";
  let description = [{
    The derivative of `tfm.slice`: `low` zeros before and `high` zeros after
    `axis`.

    Example:

    ```mlir
    %y = tfm.pad %x axis 1 low 2 high 2 : tensor<4x4xf32>
    ```
  }];
  let arguments = (ins NumberTensor:$x, I64Attr:$axis, I64Attr:$low, I64Attr:$high);
  let results = (outs NumberTensor:$y);
  let assemblyFormat = "$x `axis` $axis `low` $low `high` $high attr-dict `:` type($x)";
}

def ConcatOp : Tfm_DiffOp<"concat", [InferTypeOpAdaptor, CheapToRebuild]> {
  let flops = "0";
  let axes = [{::tfm::AxisMap::keptBut(getAxis(), place, "a concatenation along the positions")}];
  let summary = "tensors one after another along one axis";
  let description = [{
    The operands agree in every axis but `axis`, whose size in the result is the
    sum of theirs.

    Example:

    ```mlir
    %y = tfm.concat %a, %b axis 1 : tensor<4x4xf32>, tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyTfmTensor>:$xs, I64Attr:$axis);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$xs `axis` $axis attr-dict `:` type($xs)";
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Reductions and normalisations
//===----------------------------------------------------------------------===//

class Tfm_ReduceOp<string mnemonic, string what> : Tfm_DiffOp<mnemonic, [InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<RowKernelOpInterface, ["getDomain", "getReducedAxis"]>]> {
  let flops = "1";
  let axes = [{::tfm::AxisMap::keptBut(getAxis(), place, "a reduction over the positions")}];
  let summary = what # " over one axis, which is kept with size 1";
  let description = "Reduces in a fixed order, so that results do not depend on the number of threads.\n\n"
      # "Example:\n\n```mlir\n%y = tfm." # mnemonic # " %x axis 1 : tensor<4x8xf32>\n```\n";
  let arguments = (ins FloatTensor:$x, I64Attr:$axis);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x `axis` $axis attr-dict `:` type($x)";
}
def ReduceSumOp : Tfm_ReduceOp<"reduce_sum", "the sum">;
def ReduceMaxOp : Tfm_ReduceOp<"reduce_max",
    "the maximum (equal maxima share the cotangent)"> {
  let description = [{
    Where an element is not a number, the maximum is that of some others, as those
    that take it off meet that element again; with `keeps_nan` it is none either.

    Example:

    ```mlir
    %y = tfm.reduce_max %x axis 1 {keeps_nan} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, I64Attr:$axis, UnitAttr:$keeps_nan);
}

class Tfm_RowOp<string mnemonic, int count, string formula, dag extra = (ins), list<Trait> traits = []>
    : Tfm_DiffOp<mnemonic, [AllTypesMatch<["x", "y"]>] # traits> {
  let flops = "" # count;
  let axes = [{::tfm::AxisMap::keptBut(getX().getType().getRank() - 1, place,
      "a softmax or normalisation over the positions")}];
  let summary = formula # " over the last axis";
  let arguments = !con((ins FloatRows:$x), extra);
  let results = (outs FloatRows:$y);
}

def SoftmaxOp : Tfm_RowOp<"softmax", 5, "e ** x / sum(e ** x)"> {
  let description = [{
    The maximum is subtracted first, so no finite input overflows. A row that is
    minus infinity throughout gives zeros.

    Example:

    ```mlir
    %y = tfm.softmax %x : tensor<4x8xf32>
    ```
  }];
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def LogSoftmaxOp : Tfm_RowOp<"log_softmax", 5, "x - log(sum(e ** x))"> {
  let description = [{
    The logarithm of `tfm.softmax`, without its underflow: the maximum is
    subtracted first.

    Example:

    ```mlir
    %y = tfm.log_softmax %x : tensor<4x8xf32>
    ```
  }];
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def NormalizeOp : Tfm_RowOp<"normalize", 5, "(x - mean(x)) / sqrt(var(x) + eps)", (ins F64Attr:$eps),
    [CheapToRebuild]> {
  let description = [{
    Layer normalisation without gain and bias (Ba et al. 2016); `var` is the
    population variance, `eps` is not negative.

    Example:

    ```mlir
    %y = tfm.normalize %x eps 1.0e-5 : tensor<4x8xf32>
    ```
  }];
  let assemblyFormat = "$x `eps` $eps attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def RmsNormalizeOp : Tfm_RowOp<"rms_normalize", 3, "x / sqrt(mean(x ** 2) + eps)", (ins F64Attr:$eps),
    [CheapToRebuild]> {
  let description = [{
    Root-mean-square normalisation without gain (Zhang and Sennrich 2019);
    `eps` is not negative.

    Example:

    ```mlir
    %y = tfm.rms_normalize %x eps 1.0e-6 : tensor<4x8xf32>
    ```
  }];
  let assemblyFormat = "$x `eps` $eps attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def AxisOfX : PredOpTrait<"the axis is one of the operand's",
    CPred<"getAxis() < static_cast<uint64_t>(getX().getType().getRank())">>;

def CumsumOp : Tfm_DiffOp<"cumsum", [AllTypesMatch<["x", "y"]>, RowKernelOpInterface, ScanOpInterface, AxisOfX]> {
  let flops = "1";
  let axes = [{::tfm::AxisMap::along(getAxis(), getX().getType().getShape(), !getReverse(), place, size,
      "a sum over positions that are to come")}];
  let summary = "the sum of all elements up to each along one axis";
  let description = [{
    `y[i] = x[0] + ... + x[i]` along `axis`; with `reverse`, which is the
    derivative, `y[i] = x[i] + ... + x[n - 1]`. Over positions it is causal: deriving
    the decode step keeps the sums in a cache, one for each position.

    Example:

    ```mlir
    %y = tfm.cumsum %x axis 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, I64Attr:$axis, UnitAttr:$reverse);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x `axis` $axis (`reverse` $reverse^)? attr-dict `:` type($x)";
}

def ScanOp : Tfm_DiffOp<"scan", [AllTypesMatch<["decay", "x", "y"]>, RowKernelOpInterface, ScanOpInterface, AxisOfX]> {
  let flops = "2";
  let axes = [{::tfm::AxisMap::along(getAxis(), getX().getType().getShape(), !getReverse(), place, size,
      "a scan from positions that are to come")}];
  let summary = "a linear recurrence of the first order along one axis";
  let description = [{
    `y[i] = decay[i] * y[i - 1] + x[i]` along `axis`, and `y[0] = x[0]` (Blelloch
    1990); with `reverse`, which is the derivative, `y[i] = x[i] + decay[i + 1] *
    y[i + 1]`. `cumsum` is the one whose decay is 1. Over positions it is causal:
    deriving the decode step keeps `y` in a cache, as of `cumsum`.

    Example:

    ```mlir
    %y = tfm.scan %a, %x axis 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$decay, FloatTensor:$x, I64Attr:$axis, UnitAttr:$reverse);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$decay `,` $x `axis` $axis (`reverse` $reverse^)? attr-dict `:` type($x)";
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def ShiftOp : Tfm_DiffOp<"shift", [AllTypesMatch<["x", "y"]>, CheapToRebuild, AxisOfX]> {
  let flops = "0";
  let axes = [{::tfm::AxisMap::along(getAxis(), getX().getType().getShape(), static_cast<int64_t>(getSteps()) >= 0, place, size,
      "a shift from positions that are to come")}];
  let summary = "every element along one axis as many steps further on";
  let description = [{
    `y[i] = x[i - steps]` along `axis`, and 0 where `x` has no such element;
    `steps` below 0, as the derivative has them, lead back. Over positions it is
    causal where they do not: deriving the decode step keeps what a position will
    yet look back to in a cache.

    Example:

    ```mlir
    %y = tfm.shift %x axis 0 by 1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, I64Attr:$axis, I64Attr:$steps);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x `axis` $axis `by` $steps attr-dict `:` type($x)";
  let hasFolder = 1;
}

def TopKOp : Tfm_DiffOp<"top_k", [InferTypeOpAdaptor]> {
  // A maximum for each of the k.
  let flops = "getK()";
  let axes = [{::tfm::AxisMap::keptBut(getX().getType().getRank() - 1, place,
      "a choice among the positions")}];
  let summary = "the k largest elements of the last axis, and where they are";
  let description = [{
    `values` `[..., k]` are the largest elements of every row of `x` `[..., n]`, the
    largest first; `indices` say where in the row they are. Of equal elements the
    one with the lowest index comes first. `1 <= k <= n`, and `n` is at most 2**24.
    Of a row with NaN nothing is promised but that `0 <= indices < n`.

    Example:

    ```mlir
    %values, %indices = tfm.top_k %x, 2 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatRows:$x, I64Attr:$k);
  let results = (outs FloatTensor:$values, IntTensor:$indices);
  let assemblyFormat = "$x `,` $k attr-dict `:` type($x)";
  let extraClassDeclaration = [{
    /// Of an axis: kernels compare indices as floats.
    static constexpr int64_t mostElements = 1 << 24;
  }];
}

//===----------------------------------------------------------------------===//
// Matrix product, embedding
//===----------------------------------------------------------------------===//

def MatmulOp : Tfm_DiffOp<"matmul", [InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<AxisMapOpInterface, ["getAxisClash"]>]> {
  let summary = "matrix product of the last two axes";
  let description = [{
    `a` is `[batch..., M, K]` (`[batch..., K, M]` with `transpose_a`), `b` is
    `[batch..., K, N]` (`[batch..., N, K]` with `transpose_b`), the result
    `[batch..., M, N]`. Batch axes are equal; a weight shared by a batch is a
    product of rank 2 after `tfm.reshape`.

    One may be of i8 beside floats: its elements are these integers as floats.
    Both may be of i8. Terms are added up in the type `accumulator`, which is the
    result's, no narrower than those of the operands; where none is written it is
    the one that `a` is computed with, f32 for bf16, i32 for i8.

    Example:

    ```mlir
    %y = tfm.matmul %a, %b transpose_b : tensor<4x8xf32>, tensor<16x8xf32>
    ```
  }];
  let arguments = (ins WeightTensor:$a, WeightTensor:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
      TypeAttrOf<AnyTypeOf<[AnyFloat, I32]>>:$accumulator);
  let results = (outs NumberTensor:$y);
  let assemblyFormat = [{
    $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict
    `:` type($a) `,` type($b) `` custom<Accumulator>($accumulator, ref(type($a)))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b,
      CArg<"bool", "false">:$transpose_a, CArg<"bool", "false">:$transpose_b), [{
    build($_builder, $_state, a, b, transpose_a, transpose_b,
          ::tfm::arithmeticType(::mlir::getElementTypeOrSelf(a.getType())));
  }]>];
  let extraClassDeclaration = [{
    /// K: the terms that an element of the result is a sum of.
    int64_t getTerms();
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def DequantiseOp : Tfm_PureOp<"dequantise", [AllTypesMatch<["scale", "minimum"]>]> {
  let flops = "0";
  let axes = [{::tfm::AxisMap::keptBut(getY().getType().getRank() - 1, place,
      "integers of several positions in a byte")}];
  let summary = "weights of 4 bits as the numbers that they stand for";
  let description = [{
    `y` `[..., terms]` has groups of 32 terms, the last of which may be shorter,
    each with a `scale` and a `minimum`, `[..., groups]`: a term is its group's
    minimum plus its scale times an integer from 0 to 15. Two integers lie in a
    byte of `q`, `[..., groups * 16]`, without a sign: the low half of byte i of
    a group is that of its term i, the high half that of term i + 16; those of
    terms that a last group lacks are 0.

    It is part of what reads it, a matrix product or a choice of rows, which
    makes the numbers in registers: they are nowhere in memory.

    Example:

    ```mlir
    %w = tfm.dequantise %q, %scale, %minimum : tensor<16x32xi8>, tensor<16x2xbf16> to tensor<16x40xf32>
    ```
  }];
  let arguments = (ins TfmTensorOf<[I8]>:$q, TfmTensorOf<[BF16]>:$scale, TfmTensorOf<[BF16]>:$minimum);
  let results = (outs TfmTensorOf<[F32]>:$y);
  let assemblyFormat = "$q `,` $scale `,` $minimum attr-dict `:` type($q) `,` type($scale) `to` type($y)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Terms of a group, and the bytes that their integers take.
    static constexpr int64_t groupTerms = 32, groupBytes = groupTerms / 2;
    /// Of so many terms.
    static int64_t groupsOf(int64_t terms) {
      return (terms + groupTerms - 1) / groupTerms;
    }
  }];
}

def UnpackOp : Tfm_PureOp<"unpack"> {
  let flops = "0";
  let axes = [{::tfm::AxisMap::mixed("integers of several rows in a panel")}];
  let summary = "weights of 8 bits out of the panels that products read";
  let description = [{
    `y` is `[..., outputs, terms]`. In `panels`, `[..., ceil(outputs / P),
    ceil(terms / 4), P, 4]`, the weights of P outputs lie beside each other,
    four terms of each at a time, each with 128 added to it modulo 256, as
    `VPDPBUSD` reads them:

        y[..., o, t] = panels[..., o / P, t / 4, o % P, t % 4] - 128

    Integers of outputs and terms that there are not have any value. It is part
    of what reads it, a matrix product or a choice of rows: `y` is nowhere in
    memory.

    Example:

    ```mlir
    %w = tfm.unpack %panels : tensor<2x10x32x4xi8> to tensor<64x40xi8>
    ```
  }];
  let arguments = (ins TfmTensorOf<[I8]>:$panels);
  let results = (outs TfmTensorOf<[I8]>:$y);
  let assemblyFormat = "$panels attr-dict `:` type($panels) `to` type($y)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Terms of an output that lie beside each other.
    static constexpr int64_t termsTogether = 4;
    /// The type of the panels of so many outputs each of `[..., outputs,
    /// terms]`.
    static ::mlir::RankedTensorType panelsOf(::mlir::RankedTensorType type,
                                             int64_t outputs);
    /// How many outputs a panel has.
    int64_t getPanelOutputs() {
      return getPanels().getType().getShape().drop_back().back();
    }
  }];
}

def GatherOp : Tfm_DiffOp<"gather", [InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<AxisMapOpInterface, ["getAxisClash"]>,
    DeclareOpInterfaceMethods<RowKernelOpInterface, ["readsAtPoint", "getDomain"]>]> {
  let flops = "0";
  let summary = "rows of a table";
  let description = [{
    `table` is `[V, dims...]`, `ids` `[index...]`; the result is
    `[index..., dims...]`. Ids lie in `0 <= id < V`.

    Example:

    ```mlir
    %y = tfm.gather %table, %ids : tensor<50x8xf32>, tensor<4x6xi32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$table, IntTensor:$ids);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$table `,` $ids attr-dict `:` type($table) `,` type($ids)";
}

def ScatterAddOp : Tfm_DiffOp<"scatter_add", [AllTypesMatch<["base", "y"]>]> {
  let summary = "adds rows to the rows of a table";
  let description = [{
    The derivative of `tfm.gather`: `base[ids[i]] += updates[i]` for every `i` in
    row-major order.

    Example:

    ```mlir
    %y = tfm.scatter_add %base, %ids, %updates
        : tensor<50x8xf32>, tensor<4x6xi32>, tensor<4x6x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$base, IntTensor:$ids, FloatTensor:$updates);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$base `,` $ids `,` $updates attr-dict `:` type($base) `,` type($ids) `,` type($updates)";
  let hasVerifier = 1;
}

def CacheUpdateOp : Tfm_DiffOp<"cache_update", [AllTypesMatch<["base", "y"]>]> {
  let flops = "0";
  let summary = "writes the newest positions of sequences over a cache";
  let description = [{
    `base` is a cache `[B, heads, S, d]`, `updates` `[B, heads, T, d]`, `positions`
    `[B]`. The result is `base` with `y[b, h, positions[b] + t] = updates[b, h, t]`;
    rows outside of the cache are left out. In a `ring` position `p` has row
    `p mod S` instead, where it takes the place of `p - S`. A base `[1, heads, S,
    d]` is that of all B, no two of which write the same row.

    Example:

    ```mlir
    %y = tfm.cache_update %base, %updates, %positions
        : tensor<2x4x64x16xf32>, tensor<2x4x1x16xf32>, tensor<2xi32>
    ```
  }];
  let arguments = (ins WeightTensor:$base, WeightTensor:$updates, IntTensor:$positions,
      UnitAttr:$ring);
  let results = (outs WeightTensor:$y);
  let assemblyFormat = [{
    $base `,` $updates `,` $positions attr-dict
    `:` type($base) `,` type($updates) `,` type($positions)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention, rotary embedding, dropout
//===----------------------------------------------------------------------===//

def AttentionOp : Tfm_DiffOp<"attention", [AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "scaled dot-product attention";
  let description = [{
    `out = dropout(softmax(softcap(scale * q @ k.T) + distance_bias + mask)) @ v` per head
    (Vaswani et al. 2017, section 3.2.1).

    - `q` is `[B, heads, T, d]`, `k` `[B, kv_heads, S, d]`, `v`
      `[B, kv_heads, S, e]`; query head `h` reads key head
      `h / (heads / kv_heads)`. `out` is `[B, heads, T, e]`.
    - `mask` is `[B or 1, heads or 1, T, S]`: a boolean keeps where true, a
      float is added to the scores; below -16384 it counts as that, unless it
      is minus infinity (`leastMask`).
    - `causal`: query `t` sees keys `s <= t`; `window = w` keeps `t - s < w`.
    - `start` `[B]`, with `causal`: keys and values are caches, and query `t` of
      row `b` is at position `start[b] + t` of what they hold, which takes the
      place of `t` in these rules. What lies behind it is not looked at.
    - `ring`, with `start` and `window`, without a mask: the caches keep the
      newest positions alone, position `p` in row `p mod S`. All that a query
      sees is there where `S >= window + T - 1`.
    - `key_scale` and `value_scale`, `[B, kv_heads, S, 1]`: keys and values are
      integers of 8 bits, and each row of them counts times its scale.
    - `softcap = c`, positive: scores become `c * tanh(score / c)` (Gemma 2).
    - `distance_bias` `[heads, n]` is added to the scores by distance, after
      `softcap`: of a query at position `i` and a key at `j` column `i - j` with
      `causal`, else column `(n - 1) / 2 + i - j` of an odd `n`, and nothing
      where there is no such column (Press et al. 2022; Raffel et al. 2020).
    - `dropout` (0 <= rate < 1) with its `site` and `layer`: as `tfm.dropout`,
      on the weights.
    - A query that sees no key gives zeros, and zero gradients.

    `lse` `[B, heads, T]` is the logarithm of the sum of the exponentials of a
    query's scores, which the derivative needs. Where q, k, v and `out` are of
    bf16, it and a float mask are of f32, as are scores, weights and sums.

    Example:

    ```mlir
    %out, %lse = tfm.attention %q, %k, %v {causal, scale = 0.5 : f64}
        : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
    %o1, %l1 = tfm.attention %q1, %keys, %values start(%position : tensor<2xi32>) {causal, scale = 0.5 : f64}
        : tensor<2x4x1x16xf32>, tensor<2x4x64x16xf32>, tensor<2x4x64x16xf32>
    ```
  }];
  let arguments = (ins StoredFloatTensor:$q, WeightTensor:$k, WeightTensor:$v,
      Optional<AnyTfmTensor>:$mask, Optional<IntTensor>:$start, Optional<Index>:$layer,
      Optional<FloatTensor>:$key_scale, Optional<FloatTensor>:$value_scale,
      Optional<FloatTensor>:$distance_bias,
      UnitAttr:$causal, F64Attr:$scale, OptionalAttr<I64Attr>:$window,
      OptionalAttr<F64Attr>:$softcap, OptionalAttr<F64Attr>:$dropout,
      OptionalAttr<I64Attr>:$site, UnitAttr:$ring);
  let results = (outs StoredFloatTensor:$out, FloatTensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^)? (`start` `(` $start^ `:` type($start) `)`)?
    (`layer` $layer^)?
    (`scales` `(` $key_scale^ `,` $value_scale `:` type($key_scale) `,` type($value_scale) `)`)?
    (`distance` `(` $distance_bias^ `:` type($distance_bias) `)`)?
    attr-dict `:` type($q) `,` type($k) `,` type($v) (`,` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def AttentionBackwardOp : Tfm_PureOp<"attention_backward", [AttrSizedOperandSegments, AttrSizedResultSegments,
    AllTypesMatch<["q", "dq"]>, AllTypesMatch<["k", "dk"]>, AllTypesMatch<["v", "dv"]>,
    AllTypesMatch<["out", "dout"]>]> {
  let summary = "the derivative of attention";
  let description = [{
    Recomputes the attention weights from `q`, `k` and `lse` (Dao et al. 2022,
    appendix B.2) and returns the cotangents of `q`, `k`, `v`, and of a float
    `mask` and of `distance_bias` where those results are present. The attributes are those of the
    `tfm.attention` it belongs to. `inner` [B, heads, T], where it is there, is
    `out . dout` of each query, so that kernels need not compute it again for
    each tile of keys.

    Example:

    ```mlir
    %dq, %dk, %dv = tfm.attention_backward %q, %k, %v, %out, %lse, %dout {causal, scale = 0.5 : f64}
        : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8xf32>, tensor<2x4x8x16xf32>)
        -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
    ```
  }];
  let arguments = (ins StoredFloatTensor:$q, StoredFloatTensor:$k, StoredFloatTensor:$v,
      StoredFloatTensor:$out, FloatTensor:$lse, StoredFloatTensor:$dout,
      Optional<AnyTfmTensor>:$mask, Optional<Index>:$layer, Optional<FloatTensor>:$distance_bias,
      Optional<FloatTensor>:$inner, UnitAttr:$causal, F64Attr:$scale, OptionalAttr<I64Attr>:$window,
      OptionalAttr<F64Attr>:$softcap, OptionalAttr<F64Attr>:$dropout,
      OptionalAttr<I64Attr>:$site);
  let results = (outs StoredFloatTensor:$dq, StoredFloatTensor:$dk, StoredFloatTensor:$dv,
      Optional<FloatTensor>:$dmask, Optional<FloatTensor>:$ddistance);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse `,` $dout (`mask` $mask^)? (`layer` $layer^)?
    (`distance` `(` $distance_bias^ `:` type($distance_bias) `)`)?
    (`inner` `(` $inner^ `:` type($inner) `)`)? attr-dict
    `:` `(` type($q) `,` type($k) `,` type($v) `,` type($out) `,` type($lse) `,` type($dout) (`,` type($mask)^)? `)`
    `->` `(` type($dq) `,` type($dk) `,` type($dv) (`,` type($dmask)^)? `)` (`distance` type($ddistance)^)?
  }];
  let hasVerifier = 1;
}

def RopeOp : Tfm_DiffOp<"rope", [AllTypesMatch<["x", "y"]>]> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates pairs of the first `dims` entries of the last axis of `x`
    `[B, heads, T, d]` by `position * base ** (-2 i / dims)`, `i` counting pairs
    (Su et al. 2021). Pairs are `(i, i + dims / 2)`, or `(2 i, 2 i + 1)` when
    `interleaved`; `inverse` rotates back, which is the derivative. `positions`
    is `[B, T]`, `dims` even and `base` positive.

    - `frequencies`, `dims / 2` of them, take the place of `base ** (-2 i / dims)`
      (Chen et al. 2023, "Extending Context Window of Large Language Models via
      Positional Interpolation").
    - What was rotated is multiplied by `amplitude` (Peng et al. 2023, "YaRN",
      section 3.4).

    Example:

    ```mlir
    %y = tfm.rope %x, %positions {base = 10000.0 : f64, dims = 16 : i64}
        : tensor<2x4x8x16xf32>, tensor<2x8xi32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, IntTensor:$positions, F64Attr:$base, I64Attr:$dims,
      UnitAttr:$interleaved, UnitAttr:$inverse,
      OptionalAttr<DenseF64ArrayAttr>:$frequencies, OptionalAttr<F64Attr>:$amplitude);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x `,` $positions attr-dict `:` type($x) `,` type($positions)";
  let hasVerifier = 1;
}

def DropoutOp : Tfm_DiffOp<"dropout", [AllTypesMatch<["x", "y"]>,
    DeclareOpInterfaceMethods<RowKernelOpInterface, ["getDomain"]>]> {
  let flops = "1";
  let axes = "::tfm::AxisMap::kept(place)";
  let summary = "zeroes elements at random and scales the rest";
  let description = [{
    `y[i] = keep(i) ? x[i] / (1 - rate) : 0`, where `keep(i)` holds with
    probability `1 - rate`, `0 <= rate < 1`. It is a function of the counter
    `(step, micro-step, site, layer, i)` under the run's seed (Philox 4x32-10, Salmon et al. 2011;
    the layout is in docs/design.md, "Random numbers"), so that nothing is stored and
    the derivative is the same op. `site < 32768` tells one dropout of the program
    from another; `layer` is the index of the enclosing repeat. In inference it is
    the identity.

    Example:

    ```mlir
    %y = tfm.dropout %x layer %l {rate = 0.1 : f64, site = 3 : i64} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, Optional<Index>:$layer, F64Attr:$rate, I64Attr:$site);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "$x (`layer` $layer^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

def UniformOp : Tfm_Op<"uniform", [Pure, CheapToRebuild,
    DeclareOpInterfaceMethods<RowKernelOpInterface, ["getDomain"]>]> {
  let flops = "0";
  let summary = "random numbers between 0 and 1";
  let description = [{
    Each element is one of the 2**24 multiples of 2**-24 in `[0, 1)`, all as
    probable: the upper 24 bits of the word of Philox by which a `tfm.dropout`
    of this `site` and `layer` would keep an element of this shape at the same
    place, or not (docs/design.md, "Random numbers"). So it is the same number
    wherever, and as often as, it is computed.

    Example:

    ```mlir
    %u = tfm.uniform layer %l {site = 3 : i64} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Optional<Index>:$layer, I64Attr:$site);
  let results = (outs FloatTensor:$y);
  let assemblyFormat = "(`layer` $layer^)? attr-dict `:` type($y)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

def CrossEntropyOp : Tfm_DiffOp<"cross_entropy", [InferTypeOpAdaptor]> {
  let flops = "4";
  let axes = [{::tfm::AxisMap::keptBut(getTargets().getType().getRank(), place,
      "a softmax or normalisation over the positions")}];
  let summary = "negative log likelihood of target ids";
  let description = [{
    `losses[i] = lse[i] - logits[i, targets[i]]` with `lse` the logarithm of the
    sum of the exponentials of a row; with `label_smoothing = s`, `0 <= s < 1`,
    it is `lse - (1 - s) * logits[target] - s * mean(logits)`. Rows whose target is
    `ignore` give 0. `logits` is `[index..., V]`, the others `[index...]`; of
    bf16 they are widened first, and everything is computed in f32.

    Example:

    ```mlir
    %losses, %lse = tfm.cross_entropy %logits, %targets {ignore = -100 : i64}
        : tensor<4x8x50xf32>, tensor<4x8xi32>
    ```
  }];
  let arguments = (ins StoredFloatTensor:$logits, IntTensor:$targets,
      OptionalAttr<I64Attr>:$ignore, DefaultValuedAttr<F64Attr, "0.0">:$label_smoothing);
  let results = (outs FloatTensor:$losses, FloatTensor:$lse);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` type($logits) `,` type($targets)";
  let hasVerifier = 1;
}

def CrossEntropyBackwardOp : Tfm_PureOp<"cross_entropy_backward", [AllTypesMatch<["logits", "dlogits"]>,
    AllTypesMatch<["lse", "dlosses"]>]> {
  let flops = "3";
  let axes = [{::tfm::AxisMap::keptBut(getTargets().getType().getRank(), place,
      "a softmax or normalisation over the positions")}];
  let summary = "the derivative of cross entropy";
  let description = [{
    `dlogits[i, :] = (softmax(logits[i, :]) - target distribution) * dlosses[i]`,
    zero where the target is `ignore`. The attributes are those of the
    `tfm.cross_entropy` it belongs to.

    Example:

    ```mlir
    %dlogits = tfm.cross_entropy_backward %logits, %targets, %lse, %dlosses {ignore = -100 : i64}
        : tensor<4x8x50xf32>, tensor<4x8xi32>, tensor<4x8xf32>
    ```
  }];
  let arguments = (ins StoredFloatTensor:$logits, IntTensor:$targets, FloatTensor:$lse,
      FloatTensor:$dlosses, OptionalAttr<I64Attr>:$ignore,
      DefaultValuedAttr<F64Attr, "0.0">:$label_smoothing);
  let results = (outs StoredFloatTensor:$dlogits);
  let assemblyFormat = [{
    $logits `,` $targets `,` $lse `,` $dlosses attr-dict
    `:` type($logits) `,` type($targets) `,` type($lse)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Repeated layers
//===----------------------------------------------------------------------===//

def RepeatOp : Tfm_Op<"repeat", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    AttrSizedOperandSegments, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "a stack of equal layers";
  let description = [{
    Runs its body `count` times, for layer 0, 1, ... (`reverse`: from the last
    layer to the first). The body's arguments are the layer's index (counted
    through all enclosing repeats: layer `i` of `n` in layer `o` of an outer
    repeat has index `o * n + i`), the `carried` values, this layer's slice of
    each `stacked` operand (leading axis `count`), and the `shared` operands. It yields the next carried values and
    then any further values; the results are the final carried values and those
    further values stacked along a new leading axis, each at its layer's index.

    With an `order` `[count]` turn `i` has slice `order[i]` of each of the last
    `chosen` stacked operands, which may have another leading axis: of the layers
    that there are these run, in this order. Its elements lie within that axis.
    The body does not use the index then.

    The last `updated` of these operands change: a turn yields what its slice
    becomes, and turns that have the same slice later see that. Behind the
    carried values the body yields these, and they are results as they are in the
    end.

    Example:

    ```mlir
    %y, %saved = tfm.repeat 12 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<12x8x8xf32>)
        shared() -> (tensor<4x8xf32>, tensor<12x4x8xf32>) {
    ^bb0(%layer: index, %h: tensor<4x8xf32>, %wl: tensor<8x8xf32>):
      %z = tfm.matmul %h, %wl : tensor<4x8xf32>, tensor<8x8xf32>
      tfm.yield %z, %h : tensor<4x8xf32>, tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$reverse, Variadic<AnyTfmTensor>:$carried,
      Variadic<AnyTfmTensor>:$stacked, Variadic<AnyTfmTensor>:$shared,
      Optional<IntTensor>:$order, DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$chosen,
      DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$updated);
  let results = (outs Variadic<AnyTfmTensor>:$outs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`reverse` $reverse^)?
    `carried` `(` ($carried^ `:` type($carried))? `)`
    `stacked` `(` ($stacked^ `:` type($stacked))? `)`
    `shared` `(` ($shared^ `:` type($shared))? `)`
    (`order` `(` $order^ `:` type($order) `)`)? (`chosen` $chosen^)? (`updated` $updated^)?
    `->` `(` type($outs) `)` $body attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::Value getLayer() { return getBlock()->getArgument(0); }
    ::mlir::Block::BlockArgListType getCarriedArgs() {
      return getBlock()->getArguments().slice(1, getCarried().size());
    }
    ::mlir::Block::BlockArgListType getStackedArgs() {
      return getBlock()->getArguments().slice(1 + getCarried().size(), getStacked().size());
    }
    ::mlir::Block::BlockArgListType getSharedArgs() {
      return getBlock()->getArguments().drop_front(1 + getCarried().size() + getStacked().size());
    }
    ::mlir::ResultRange getCarriedResults() { return getResults().take_front(getCarried().size()); }
    ::mlir::OperandRange getUpdatedOperands() { return getStacked().take_back(getUpdated()); }
    ::mlir::Block::BlockArgListType getUpdatedArgs() { return getStackedArgs().take_back(getUpdated()); }
    /// Whether what an operand is changes from turn to turn: carried values
    /// and updated slices.
    bool changesOperand(size_t number) {
      size_t end = getCarried().size() + getStacked().size();
      return number < getCarried().size() || (number < end && number + getUpdated() >= end);
    }
    /// Whether the stacked operand of this number follows the order.
    bool isChosen(size_t stacked) { return stacked + getChosen() >= getStacked().size(); }
    ::mlir::ResultRange getUpdatedResults() { return getResults().slice(getCarried().size(), getUpdated()); }
    ::mlir::ResultRange getStackedResults() { return getResults().drop_front(getCarried().size() + getUpdated()); }
    YieldOp getYield();
    /// Adds a stacked operand behind its like, one that follows the order or
    /// one that does not, and returns its argument.
    ::mlir::BlockArgument addStacked(::mlir::Value operand, bool isChosen);
  }];
}

def YieldOp : Tfm_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"RepeatOp">]> {
  let flops = "0";
  let summary = "ends the body of a repeat";
  let description = [{
    First the next carried values, then the values to stack.

    Example: one carried value and nothing to stack.

    ```mlir
    %y = tfm.repeat 3 carried(%x : tensor<8xf32>) stacked() shared() -> (tensor<8xf32>) {
    ^bb0(%layer: index, %h: tensor<8xf32>):
      %z = tfm.tanh %h : tensor<8xf32>
      tfm.yield %z : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyTfmTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ /* nothing to yield */ }]>];
}

#endif // TFM_DIALECT_TFMOPS_TD
