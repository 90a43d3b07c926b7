//===- Passes.td - passes over the tfm dialect --------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TRANSFORMS_PASSES_TD
#define TFM_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecordFactsPass : Pass<"tfm-record-facts", "::mlir::ModuleOp"> {
  let summary = "note what tells the model from one with other heads";
  let description = [{
    Sets the module's attribute `tfm.facts` (docs/design.md, "Facts"), read from
    `@forward` while its ops are still those of the language.
  }];
}

def DifferentiatePass : Pass<"tfm-differentiate", "::mlir::ModuleOp"> {
  let summary = "add @train: the loss and its gradients";
  let description = [{
    From `@loss`, whose first result is the loss, makes `@train`: the same
    results followed by the gradient of every trainable `tfm.param`, in the
    order of their declarations. Each of these results has the attribute
    `tfm.gradient = @param`. The gradient of a parameter that the loss does not
    depend on is zeros. Does nothing where there is no `@loss`, or a `@train`.
  }];
}

def AccumulateGradientsPass : Pass<"tfm-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "@train adds to the gradients, where the recipe accumulates";
  let description = [{
    Where `train.accumulate` of the recipe is above 1, `@train` gets a further
    argument for every gradient, with the same attribute `tfm.gradient = @param`
    as the result, and returns their sum: both are the same place in the arena.
    A gradient that a `tfm.repeat` stacks is added inside of it, layer by layer;
    one that it updates by slices begins as what is there.
    Does nothing where the recipe does not accumulate.
  }];
}

def ChunkLossPass : Pass<"tfm-chunk-loss", "::mlir::ModuleOp"> {
  let summary = "the loss over a vocabulary in chunks of rows";
  let description = [{
    In `@train`, what is between the product that gives logits and the products
    that their derivative goes into becomes a `tfm.repeat` over chunks of the
    rows of logits, so that only those of one chunk are ever there; so does in
    `@evaluate` what is computed of logits. Sums over rows are carried from chunk
    to chunk. Does nothing where there are fewer rows than two chunks have, or
    something else reads logits.
  }];
  let options = [Option<"trained", "trained", "int64_t", "0",
      "the fewest rows of a chunk of @train; 0: all rows at once">,
    Option<"evaluated", "evaluated", "int64_t", "0", "of @evaluate">];
  let dependentDialects = ["::tfm::TfmDialect"];
}

def HoistInvariantsPass : Pass<"tfm-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "functions of what all layers share, once for all of them";
  let description = [{
    What a layer of a `tfm.repeat` computes from shared operands and constants
    alone is the same in every layer. Of that, functions that take long (sines
    and cosines of positions), with what they are made of, are computed before
    the repeat and shared, as far as they are no larger than a value that layers
    hand on.
  }];
}

def StripDropoutPass : Pass<"tfm-strip-dropout", "::mlir::ModuleOp"> {
  let summary = "add @evaluate: the loss without dropout";
  let description = [{
    Makes `@evaluate`, a copy of `@loss` in which `tfm.dropout` is the identity
    and `tfm.attention` has no dropout, and removes dropout from `@forward`.
    `@loss` stays as it is, and `tfm.uniform` draws in both.
  }];
}

def MeasurePredictionsPass : Pass<"tfm-measure-predictions", "::mlir::ModuleOp"> {
  let summary = "which targets @evaluate finds to be the most probable tokens";
  let description = [{
    Where the losses of `@evaluate` are a cross entropy, it gives `right` `[B, T]`,
    too: 1 for a target that is the most probable token, the first of several, else
    0. And where the loss smooths labels, `surprisals` `[B, T]`: what it would be
    without. So one pass over the data measures all.
  }];
  let dependentDialects = ["::tfm::TfmDialect"];
}

def StoreWeightsPass : Pass<"tfm-store-weights", "::mlir::ModuleOp"> {
  let summary = "weights in the type that generation reads them in";
  let description = [{
    Finds the parameters that are read by matrix products, as their second
    operand, and as tables of rows, and by nothing else, and notes the axis of
    their outputs (`output_axis` of `tfm.param`). Where `generate.weights` of the
    recipe is `bf16` they are stored in bf16; where it is `int8` as i8 of
    `[outputs, terms]`, with a parameter `NAME.scale` beside them, one number for
    each output, that products and rows are multiplied by; where it is `int4` as
    bytes of two integers, with parameters `NAME.scale` and `NAME.minimum`, which
    products and choices of rows read by way of `tfm.dequantise`. All other
    parameters stay as they are.

    Where the target reads weights of 8 bits in panels (`panel-outputs`), they
    are stored in these, and read by way of `tfm.unpack`; where it wants those of
    bf16 `by-outputs`, they are stored as `[outputs, terms]`, too.
  }];
  let options = [
    Option<"panelOutputs", "panel-outputs", "int64_t", "0",
           "outputs of a panel of weights of 8 bits; 0: they lie in rows">,
    Option<"panelTerms", "panel-terms", "int64_t", "0",
           "terms of an output beyond which they lie in rows all the same">,
    Option<"byOutputs", "by-outputs", "bool", "false",
           "whether weights of bf16 are stored as [outputs, terms]">
  ];
}

def MixedPrecisionPass : Pass<"tfm-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "values rounded to bf16 where the recipe's precision says so";
  let description = [{
    Where `train.precision` of the recipe is `bf16`, values are stored in bf16
    by one table (docs/design.md, "Precision"): the operands of products and of
    attention, what attention gives, logits on their way to the loss, and what a
    `tfm.repeat` saves of these for its derivative. All arithmetic, and whatever
    the table does not name, stays in f32, parameters too: products read copies
    of them (`tfm.get_param` of bf16), which `@refresh` makes from the regions
    of parameters, and `@update` along with the parameters. Does nothing where
    the precision is f32.
  }];
}

def QuantiseCachePass : Pass<"tfm-quantise-cache", "::mlir::ModuleOp"> {
  let summary = "keys and values as integers where the recipe's cache says so";
  let description = [{
    Where `generate.cache` of the recipe is `int8`, causal attention of
    `@forward` and `@forward_batch` reads keys and values as integers of 8 bits,
    with a scale for each position of each head: the row's largest magnitude is
    127 of it. So do the functions that are derived from them, whose caches keep
    both. Nothing is done where they keep no cache.
  }];
}

def SimplifyPass : Pass<"tfm-simplify", "::mlir::ModuleOp"> {
  let summary = "shorter programs of the same meaning";
  let description = [{
    Folds, merges equal ops, erases dead ones, and rewrites what differentiation
    leaves behind: sums of padded slices become concatenations, sums with a
    scattered term scatter onto the other term, reductions of repeated elements
    become products, negations are absorbed. Works inside `tfm.repeat`, and
    removes carried values, stacked results and operands that nothing needs.
  }];
}

def DecomposePass : Pass<"tfm-decompose", "::mlir::ModuleOp"> {
  let summary = "composite ops as what kernels are made of";
  let description = [{
    Replaces ops that no kernel computes as they are (softmax, normalize,
    cross_entropy, rope, ...) by reductions, `broadcast`, slices and elementwise ops:
    what kernels are fused from. Run `tfm-simplify` after it:
    an op and its derivative share statistics. Where the target has kernels for
    scans, these go along the last axis, else they become slices, products and
    additions.
  }];
  let options = [Option<"scans", "scans", "bool", "false", "whether a kernel scans rows">];
}

def AddUpdatePass : Pass<"tfm-add-update", "::mlir::ModuleOp"> {
  let summary = "add @update_decayed and @update_plain: the optimizer's step";
  let description = [{
    From `train.optimizer` of the recipe makes one function per range of
    trainable parameters, those that weight decay applies to and the rest, over
    all of their elements as one flat tensor:

    ```mlir
    func.func @update_decayed(%p: tensor<Nxf32>, %g: tensor<Nxf32>,
        %m: tensor<Nxf32>, %v: tensor<Nxf32>, %hyper: tensor<4xf32>,
        %scale: tensor<f32>) -> (tensor<Nxf32>, tensor<Nxf32>, tensor<Nxf32>)
    ```

    returns the next parameters and the next state `m` and `v`. `%hyper` is the
    learning rate, 1 - beta1^t, 1 - beta2^t and the largest gradient norm;
    `%scale` is what clipping multiplies every gradient with. State that the
    optimizer does not keep is returned as it came: SGD keeps its momentum in
    `m`, and only where it has one. A range without parameters gets no function.
    Where the learning rates of a range are not all the same, a last argument
    `%rates: tensor<Nxf32>` has what each parameter's is multiplied by.
  }];
}

def DeriveDecodePass : Pass<"tfm-derive-decode", "::mlir::ModuleOp"> {
  let summary = "add @prefill, @decode and what else generates with a cache";
  let description = [{
    From `@forward(tokens [B, T])` makes the functions that take some new tokens
    of every sequence and know the others from a cache (where there is
    `@forward_batch`, `@decode` is made of that one, which then goes, and
    `@prefill` has a further input `row`, which of its sequences it works on):

    - `@decode(tokens [B, 1], position [B], caches...) -> (logits [B, V],
      caches...)`: one token of each sequence, at its position;
    - `@prefill(tokens [B, C], position [B], length [B], caches...) -> (logits
      [B, V], caches...)`: a chunk, of which `length` tokens count, beginning at
      `position`; the logits are those after the last token that counts, and
      what only they need is computed for that token alone;
    - `@prefill_short`: the same with a shorter chunk; where there is
      `@forward_batch`, and no scan or mask, with one of `segments`
      that have `segment` tokens each (`tokens [segments, segment]`), of any
      texts: `position`, `length` and `row` have an element for each of them, and
      so have the caches (`tfm.segment`). All segments write before any reads,
      so that a text's may follow each other in a chunk;
    - `@verify(tokens [B, N], position [B], caches...) -> (logits [B, N, V],
      caches...)`: a few tokens, and the logits after each of them.

    No chunk is longer than T, and one that would not be shorter than another by
    half is left out.

    Where `@forward` has a `source` that an encoder reads, `@encode(source,
    present) -> (caches...)` computes what depends on it and on no token: before
    the caches of positions the others take its results, of the same regions.

    The logits are those of `@forward` at the same positions. Causal attention
    reads its keys and values from a cache `[layers..., B, kv_heads, T, d]` of
    its own, an argument that is also a result of the region `cache.N`. With a
    window it is a ring of fewer rows than T, where the window and the longest
    of these functions leave any over. A
    scan keeps its sums in one, `[layers..., B, outer, T, inner]`, and a
    shift what it shifts; values
    that depend on no input are picked at the positions. Where an op mixes
    positions in any other way nothing is made, and the module's attribute
    `tfm.whole_sequence` says which line it is.
  }];
  let options = [Option<"chunk", "chunk", "int64_t", "64",
                        "tokens that a prefill takes of each sequence">,
                 Option<"shortChunk", "short-chunk", "int64_t", "0",
                        "tokens that a short prefill takes; 0: there is none">,
                 Option<"segment", "segment", "int64_t", "0",
                        "tokens of a segment of the short prefill of several texts; 0: it has none">,
                 Option<"segments", "segments", "int64_t", "2",
                        "how many segments that has">,
                 Option<"few", "few", "int64_t", "0",
                        "tokens that are verified together; 0: there is no such function">,
                 Option<"ringMultiple", "ring-multiple", "int64_t", "1",
                        "what the rows of a ring of keys are a multiple of">];
}

def ChooseLayersPass : Pass<"tfm-choose-layers", "::mlir::ModuleOp"> {
  let summary = "run the layers of a repeat that are chosen, and no others";
  let description = [{
    Where each layer of a repeat gives `carried` back unless its number is among
    ids that are the same for all of them (`only` of a call in the language: an
    expert of a mixture), no more layers than there are ids do anything. If these
    are few, as of one token, the repeat becomes one over the layers that are
    chosen, from the first to the last, and then some others (`order` of
    `tfm.repeat`), which still give back what they get. Each layer decides as
    before for every row, so that the values are the same.

    Where there are more, and rows go through a layer each by itself, a turn is
    of a few rows that chose the same layer: they are gathered, computed, and
    written over what is carried.

    `trained` does the latter, and in `@loss` alone, of which the derivative is
    made afterwards: it then computes the same rows.
  }];
  let options = [Option<"trained", "trained", "bool", "false",
                        "in @loss, before it is differentiated">];
}

def LegalizeForKernelsPass : Pass<"tfm-legalize-for-kernels", "::mlir::ModuleOp"> {
  let summary = "ops that no kernel computes, by ops that one does";
  let description = [{
    Padding becomes a concatenation with zeros; a reduction over an axis that is
    not the last is one over rows of one axis, or of few terms their sum written
    out, or where rows would be short one over the transpose; rows of a table
    that have several axes are rows of one.
  }];
}

def CombineUpdatePass : Pass<"tfm-combine-update", "::mlir::ModuleOp"> {
  let summary = "one @update over the regions of the arena";
  let description = [{
    Makes one `@update` of `@update_decayed` and `@update_plain`. Its arguments
    are the arena's regions of parameters, gradients and state, as rows of equal
    length (`tfm.region = "parameters.decayed"` and so on), and `hyper`; the
    parameters and state that it returns go where they came from. It computes
    the norm of all gradients first, returns it as `grad_norm`, and scales the
    gradients by `min(1, hyper[3] / (norm + 1e-6))` where `hyper[3]` is positive.

    Where an update has several micro-batches the two stay as updates of
    `regionBlock` rows of their region, from that of the number `row` (an i32
    with `tfm.row`) on: processes that share an update call them for the rows
    that are theirs. Else they are erased.

    With `devices` processes sum up gradients from device to device. Their part
    of the norm then comes from `@squares`, which returns the sum of the squares
    of all gradients. Nothing there adds up gradients as a tree: where the
    recipe wants that an update is not shared.

    What an update has as `%rates` follows from the number of a row.
  }];
  let options = [Option<"devices", "devices", "bool", "false",
                        "rows are exchanged from device to device">];
}

def FinishFunctionsPass : Pass<"tfm-finish-functions", "::mlir::ModuleOp"> {
  let summary = "leave the functions that a binary runs";
  let description = [{
    Names the results that the runtime looks for (`tfm.name`), erases `@loss`,
    whose work `@train` and `@evaluate` do, and an `@update` without a `@train`.
  }];
}

def AddCandidatesPass : Pass<"tfm-add-candidates", "::mlir::ModuleOp"> {
  let summary = "the best candidates beside the logits of generation";
  let description = [{
    What works on the caches of generation (`@prefill`, `@prefill_short`,
    `@verify`, `@decode`) also gives the largest of each row of its logits,
    `candidates [B, K]`, and whose they are, `candidate_ids [B, K]`, in the order
    of `tfm.top_k` (of `@verify` `[B, T, K]`): all that the host reads where a
    text is drawn from them. K is one more than
    `generate.top_k` of the recipe, so that a tie with the last one is seen, and
    `least` at least; where that is more than `most`, it is `least`.

    Comes behind `tfm-decompose`: the target has a kernel for `tfm.top_k`.
  }];
  let options = [Option<"least", "least", "int64_t", "0", "the least candidates; 0: there are none">,
                 Option<"most", "most", "int64_t", "0", "the most candidates">,
                 Option<"leastLogits", "least-logits", "int64_t", "0",
                        "the least logits that candidates are chosen from">];
}

#endif // TFM_TRANSFORMS_PASSES_TD
