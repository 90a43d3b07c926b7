//===- tfm_model.h - the interface of a compiled model --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an object file written by `tfmc build` exports: one `tfm_model`, named
// `tfm_model_descriptor`. Plain C99, so that any program can link a model:
//
//   1. choose the first variant whose `features` the machine has: what the next
//      steps read is the variant's. A build for one CPU may have several, for
//      faster instructions of its kind. Of `amx-tile` Linux lets a program use
//      the tiles once it has asked (arch_prctl, ARCH_REQ_XCOMP_PERM);
//   2. allocate `arena_bytes` zeroed bytes at `arena_alignment`;
//   3. copy the constants of the model into it (`constants`);
//   4. fill the parameters at their offsets (`places`), and run `refresh` where
//      there is one, now and whenever something other than `update` has changed
//      them;
//   5. write the inputs of a function, all of them before every call;
//   6. call its `run` once per thread, with a `tfm_thread` each, all at the
//      same time; the threads share out its pieces (`claim`, `finish`);
//   7. read its outputs before anything else runs.
//
// All offsets are bytes from the start of the arena. Tensors are row-major.
// A model has no memory but arenas and scratch: functions may run at the same
// time, each with an arena of its own.
// Nothing checks the ids in `tokens`, `targets` and other integer inputs: they
// must name rows of the tables that the model looks them up in.
//
// Inputs share bytes with outputs and with whatever the functions compute on
// the way: after a call an input holds something else, and so do the outputs
// of the call before. What keeps its bytes are parameters, gradients, the
// optimizer's state, constants, and the cache of `prefill` and `decode`.
//
// A build has those of these functions that its model and recipe allow:
//
//   forward   inference
//   encode    what an encoder makes of its inputs, `source` (i32 [B, S]) and
//             `present` (bytes, 1 where a token is there), for the next four
//   prefill   appends a chunk of tokens to the cache (both or none of the two)
//   decode    appends one token to the cache
//   prefill_short  as `prefill`, a shorter chunk: for the rest of a prompt
//   verify    appends a few tokens, and gives the logits after each
//   evaluate  the loss, without dropout and gradients
//   train     the loss of a micro-batch, and the gradients (`tfm_place`)
//   update    one step of the optimizer, in place
//   update_decayed, update_plain  the same for some rows of the parameters that
//             weight decay applies to, and of the other trained ones, so that
//             processes can share an update: where there are several
//             micro-batches (`tfm_variant.decayed`, `plain`)
//   squares   the sum of squares of all gradients, where processes sum these up
//             from device to device
//   refresh   the copies of the parameters in bf16 that the others read, where
//             a build computes in that; without inputs or outputs
//
// Their inputs and outputs. Find them by name: a function lists what it needs.
//
//   in  tokens     i32 [B, T]  forward, prefill, prefill_short, verify, decode,
//                              evaluate, train: ids.
//                              It stands for all arguments of the model's
//                              `forward`, and of its `loss` where it has one;
//                              they have the names, types and shapes that the
//                              model's text gives them. T is the length of a
//                              chunk in `prefill`, `prefill_short` and
//                              `verify`, and 1 in `decode`
//   in  targets    i32 [B, T]  evaluate, train: the ids to be predicted (for
//                              `mse` f32, in the shape of the result)
//   in  count      f32 []      evaluate, train: how many targets the loss is
//                              the mean of: those that are not ignored in all
//                              micro-batches of an update, at least 1
//   in  rng        i32 [4]     train, evaluate: what random numbers depend on,
//                              {low half of the seed, high half, update,
//                              micro-batch}, the latter two from 0; while
//                              evaluating, where a loss draws even then,
//                              {0, 0, 0, batch}
//   in  hyper      f32 [4]     update, update_decayed, update_plain: {learning
//                              rate, 1 - beta1^t, 1 - beta2^t, largest norm of
//                              the gradient (0: any)}, t = 1 in the first
//                              update
//   in  row        i32 [1]     update_decayed, update_plain: the first of the
//                              rows, a multiple of `tfm_rows.block`, counted
//                              from `tfm_rows.first`
//   in  scale      f32 []      update_decayed, update_plain: what gradients are
//                              multiplied by, to clip them; the last number of
//                              `hyper` does nothing there
//   in  position   i32 [B]     prefill, prefill_short, verify, decode: how many
//                              tokens of the row's cache come before these.
//                              What lies behind is overwritten: 0 begins a new
//                              text, and a smaller one than before takes
//                              tokens back (those of the last call at most:
//                              what only sees a window keeps no more). A text
//                              that `decode` has no token for gets any, behind
//                              its last one, where the next one overwrites it
//   in  length     i32 [B]     prefill, prefill_short: how many tokens of the
//                              row's chunk count, from the left
//   in  row        i32 [B]     prefill, prefill_short, verify: where `decode`
//                              takes several texts, the number of that whose
//                              cache a row appends to. Their B is 1, but that
//                              of `prefill_short` may be more: parts of texts,
//                              of one text in their order. Where there are
//                              fewer of these, the others repeat one of them,
//                              in all inputs: what does not count is written to
//                              the cache, too, behind what does
//   out logits     f32 [B, T, V] forward, prefill, prefill_short, verify,
//                              decode: the first result of
//                              `forward` (further ones have an empty name), in
//                              the shape that the model's text gives it. Of
//                              `prefill`, `prefill_short` and `decode` [B, V],
//                              those after the last token that counts
//   out candidates f32 [B, K]  prefill, prefill_short, verify, decode: of a
//                              GPU's variant where there are many logits, the
//                              largest of each row, the largest first; what is
//                              no number comes before all. Of `verify`
//                              [B, T, K]
//   out candidate_ids i32 [B, K]  prefill, prefill_short, verify, decode: of
//                              the same whose they are; of equal logits the one
//                              of the smaller id comes first
//   out loss       f32 []      evaluate, train: the sum of `losses` / `count`
//   out losses     f32 [B, ..] evaluate, train: of each target, 0 if ignored
//   out right      f32 [B, T]  evaluate: of a cross entropy, 1 for a target
//                              that is the most probable token
//   out surprisals f32 [B, T]  evaluate: of one that smooths labels, what
//                              `losses` would be without
//   out grad_norm  f32 []      update: of all gradients, before clipping
//   out squares    f32 []      squares: the sum
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TFM_MODEL_H
#define TFM_RUNTIME_TFM_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFM_ABI_VERSION 19
/// The offset of something that a build does not have.
#define TFM_NONE UINT64_MAX

/// The functions' names.
#define TFM_FORWARD "forward"
#define TFM_ENCODE "encode"
#define TFM_PREFILL "prefill"
#define TFM_DECODE "decode"
#define TFM_PREFILL_SHORT "prefill_short"
#define TFM_VERIFY "verify"
#define TFM_EVALUATE "evaluate"
#define TFM_TRAIN "train"
#define TFM_UPDATE "update"
#define TFM_UPDATE_DECAYED "update_decayed"
#define TFM_UPDATE_PLAIN "update_plain"
#define TFM_SQUARES "squares"
#define TFM_REFRESH "refresh"

/// The names of their inputs and outputs.
#define TFM_IN_TOKENS "tokens"
#define TFM_IN_TARGETS "targets"
#define TFM_IN_SOURCE "source"
#define TFM_IN_PRESENT "present"
#define TFM_IN_COUNT "count"
#define TFM_IN_RNG "rng"
#define TFM_IN_HYPER "hyper"
#define TFM_IN_ROW "row"
#define TFM_IN_SCALE "scale"
#define TFM_IN_POSITION "position"
#define TFM_IN_LENGTH "length"
#define TFM_OUT_LOGITS "logits"
#define TFM_OUT_CANDIDATES "candidates"
#define TFM_OUT_CANDIDATE_IDS "candidate_ids"
#define TFM_OUT_LOSS "loss"
#define TFM_OUT_LOSSES "losses"
#define TFM_OUT_RIGHT "right"
#define TFM_OUT_SURPRISALS "surprisals"
#define TFM_OUT_GRAD_NORM "grad_norm"
#define TFM_OUT_SQUARES "squares"

/// What products are made of (`tfm_launch.products`): multiply-adds of f32, to
/// which what is narrower is widened, or sums of products of two bf16, in
/// vectors (AVX512-BF16, AArch64's BF16), in tiles (AMX) or by the tensor cores
/// of a GPU (mma.sync), or of four integers of 8 bits, in vectors (AVX512-VNNI,
/// AVX-VNNI, AArch64's DotProd; by pairs: AVX2) or in tiles (AMX).
#define TFM_PRODUCTS_F32 "f32"
#define TFM_PRODUCTS_BF16_PAIRS "bf16-pairs"
#define TFM_PRODUCTS_BF16_TILES "bf16-tiles"
#define TFM_PRODUCTS_BF16_MMA "bf16-mma"
#define TFM_PRODUCTS_INT8_QUADS "int8-quads"
#define TFM_PRODUCTS_INT8_PAIRS "int8-pairs"
#define TFM_PRODUCTS_INT8_TILES "int8-tiles"

typedef enum {
  TFM_F32 = 0,
  TFM_I32 = 1,
  TFM_U8 = 2,   ///< a truth value: 0 or 1
  TFM_BF16 = 3, ///< the upper half of an f32
  TFM_I8 = 4,   ///< quantised, see `tfm_parameter.dtype`
  TFM_I4 = 5    ///< the same, two in a byte
} tfm_dtype;

/// Of a parameter of TFM_I4: terms of an output that have a scale and a minimum
/// together, and the bytes that they take.
#define TFM_GROUP_TERMS 32
#define TFM_GROUP_BYTES 16

/// Of a parameter of TFM_I8 in panels: terms of an output that lie beside each
/// other.
#define TFM_PANEL_TERMS 4

/// When a launch was over.
typedef struct {
  /// Its number in `tfm_function.launches`; `launch_count` stands for the
  /// beginning of the call.
  uint64_t launch;
  /// The clock then: of the CPU in ticks of its own, of a GPU in nanoseconds.
  uint64_t clock;
} tfm_event;

/// One of the threads that run a function together. A function is a sequence
/// of launches of kernels, the same in every thread, and the work of a launch
/// comes in `count` pieces, in any order and by any thread with the same bits.
typedef struct tfm_thread { // NOLINT(readability-identifier-naming): C
  /// 0 <= index < count.
  int64_t index;
  int64_t count;
  /// The function calls this until it gives -1, once for every launch. It gives
  /// the number of a piece of this launch, 0 <= piece < count, that no thread
  /// has been given before, which is computed when the thread calls again; or
  /// -1 when all pieces of the launch have been computed.
  ///
  /// The simplest: with one thread 0 and -1 in turns; with several `index`, and
  /// then -1 when all have come so far (a barrier).
  int64_t (*claim)(struct tfm_thread *);
  /// The function calls this at most once for a piece that it was given, when
  /// it has computed it and before it claims again. Not 0 for one thread in
  /// each launch, when all of its pieces have been computed: what follows them
  /// that thread computes alone, and the launch is over when it claims again.
  ///
  /// The simplest: with one thread 1; with several a barrier that tells one of
  /// them from the others (`pthread_barrier_wait`).
  int64_t (*finish)(struct tfm_thread *);
  /// `scratch_bytes` of the variant for this thread alone, aligned to 64.
  void *scratch;
  /// Belongs to whoever provides `claim`.
  void *pool;
  /// Null, or where the function notes its beginning and then the end of every
  /// launch, as often as it runs: the sum of the `runs` of its launches, and
  /// one. It leaves the pointer behind them.
  tfm_event *events;
} tfm_thread;

#define TFM_MAX_BOXED_RANK 5

/// A tensor of bf16 in a device's memory, of which a kernel has boxes copied
/// ("Tensor-map" in the PTX ISA): its axes, first the one along which elements
/// follow each other. Boxes are swizzled by 128 bytes, and what is outside of
/// the tensor is zero.
typedef struct {
  /// The number of the argument that points to its first element.
  int32_t argument;
  uint32_t rank;
  /// Elements along each axis, bytes from one to the next, and elements of a
  /// box.
  uint64_t sizes[TFM_MAX_BOXED_RANK];
  uint64_t strides[TFM_MAX_BOXED_RANK];
  uint64_t box[TFM_MAX_BOXED_RANK];
} tfm_boxed_tensor;

/// Arguments of a device's kernel at most, tensors and all: a GPU takes 4,096
/// bytes of them (CUDA C++ Programming Guide, "__global__").
#define TFM_MAX_ARGUMENTS 512

/// A kernel of a device, and how it is launched: the grid in blocks, a block in
/// threads.
typedef struct {
  /// Of the function in the images.
  const char *name;
  uint32_t grid[3];
  uint32_t block[3];
  /// Memory of a block that is asked for at the launch.
  uint32_t shared_bytes;
  /// So many blocks have room on a multiprocessor at once, and more than those
  /// that the GPU has room for are not launched, along the grid's first axis:
  /// they do all in turns. 0: the whole grid is.
  uint32_t resident;
  /// Each of 8 bytes. Behind them there is for each of `tensors` a CUtensorMap.
  uint32_t argument_count;
  uint32_t tensor_count;
  const tfm_boxed_tensor *tensors;
  /// The number of a kernel that computes the same with the same arguments and
  /// is launched instead where an image of forms has it; -1: none.
  int64_t form;
} tfm_kernel;

typedef enum {
  TFM_IMAGE_PTX = 0,  ///< text, with a null byte at its end
  TFM_IMAGE_CUBIN = 1 ///< machine code
} tfm_image_kind;

/// Which kernels an image has.
typedef enum {
  TFM_PART_COMMON = 0,  ///< those that have no form
  TFM_PART_GENERAL = 1, ///< those that have one, as all GPUs run them
  TFM_PART_FORMS = 2    ///< the forms (`tfm_kernel.form`)
} tfm_image_part;

/// Kernels of a device, as its driver loads them: of each part the first image
/// that runs, the general part where no image of forms does.
typedef struct {
  tfm_image_kind kind;
  /// The compute capability that it is for. PTX is for all newer ones, too, and
  /// a cubin for those of the same `major`, where it is not `exact`.
  int32_t major;
  int32_t minor;
  int16_t exact;
  /// A `tfm_image_part`.
  int16_t part;
  /// `packed` bytes, of which a block of the LZ4 format makes `size`.
  const void *data;
  uint64_t packed;
  uint64_t size;
} tfm_image;

/// Where the functions of a device's variant leave their launches.
typedef struct tfm_queue { // NOLINT(readability-identifier-naming): C
  /// Has the kernel of a launch run, by its number in `tfm_function.launches`,
  /// when all before it have. `arguments` are read before this returns.
  void (*launch)(struct tfm_queue *, int64_t launch, const uint64_t *arguments);
} tfm_queue;

/// A named tensor at a fixed place of the arena.
typedef struct {
  const char *name;
  tfm_dtype dtype;
  int32_t rank;
  const int64_t *shape;
  uint64_t offset;
} tfm_buffer;

typedef enum {
  TFM_INIT_ZEROS = 0,
  TFM_INIT_ONES = 1,
  TFM_INIT_NORMAL = 2,  ///< args: mean, standard deviation
  TFM_INIT_UNIFORM = 3, ///< args: low, high
  TFM_INIT_TRUNCATED_NORMAL =
      4,                ///< args: mean, standard deviation; cut at 2 deviations
  TFM_INIT_CONSTANT = 5 ///< args: the value
} tfm_init;

/// One tensor of the checkpoint: one layer's slice of a parameter.
typedef struct {
  /// Dotted path, as in checkpoints: `h.0.attn.c_attn.weight`.
  const char *name;
  /// Of its value in memory. Gradients and the optimizer's state are of the
  /// same type; a build of others than f32 has none of them. TFM_I8 are
  /// integers from -127 to 127, to be multiplied by the scale of their output,
  /// an f32 at `tfm_place.scale`: [outputs, terms], and before these the axes
  /// that the tensor has before its last two. TFM_I4 are integers from 0 to 15,
  /// to be multiplied by the scale of their group and added to its minimum,
  /// each [outputs, groups] of bf16: the terms of an output are in groups of
  /// TFM_GROUP_TERMS, a last one of which may be filled up with zeros. The low
  /// half of byte i of a group is its term i, the high half its term i + 16:
  /// [outputs, groups * TFM_GROUP_BYTES].
  tfm_dtype dtype;
  int32_t rank;
  /// As checkpoints have it.
  const int64_t *shape;
  /// The axis of the outputs of the products that it is a weight of (or of rows
  /// that ids choose), one of the last two, the other being that of the terms;
  /// -1 where something else reads it.
  int64_t output_axis;
  int32_t trainable;
  /// Whether weight decay applies to it.
  int32_t decayed;
  tfm_init init;
  /// Further names that a checkpoint may hold for the same tensor.
  int32_t alias_count;
  const char *const *aliases;
  double init_args[2];
  /// Number of the tensor's own random stream for initialisation.
  uint64_t init_stream;
} tfm_parameter;

/// Where the tensors of one parameter lie.
typedef struct {
  uint64_t value;
  /// Of the scales of a value of TFM_I8 or TFM_I4, else TFM_NONE.
  uint64_t scale;
  /// Of the minima of a value of TFM_I4, else TFM_NONE.
  uint64_t minimum;
  /// TFM_NONE where the parameter is not trained, or the build has no `train`.
  /// Where the recipe accumulates (`train.accumulate` above 1), `train` adds to
  /// it: set all gradients to zero before the first micro-batch of an update.
  /// Else it is overwritten.
  uint64_t gradient;
  /// The optimizer's state (Adam: m and v; SGD: momentum), TFM_NONE if unused.
  uint64_t state[2];
  /// Of the launches of a call of `train`, each counted as often as it runs:
  /// how many there are up to the last one that has to do with the gradient,
  /// and how many before the first one that reads the value (or its copy).
  uint64_t gradient_done;
  uint64_t value_used;
  /// Where the build has `train`: whether any function but updates and
  /// `refresh` reads the value itself, and whether any reads its copy (1 or 0).
  uint16_t reads_value;
  uint16_t reads_copy;
  /// Of a value of TFM_I8 that lies in panels how many outputs each of them
  /// has, 0 where it lies in rows. Its integers then have 128 added (modulo
  /// 256), as bytes, and each matrix is [panels, groups of TFM_PANEL_TERMS
  /// terms, outputs of a panel, terms of a group], where the last panel and
  /// group may have places for outputs and terms that there are not.
  uint16_t panel_outputs;
  /// Whether a value of TFM_BF16 lies with its last two axes swapped, so that
  /// the terms of an output follow each other (1 or 0).
  uint16_t transposed;
} tfm_place;

/// One kernel at one place of a function.
typedef struct {
  /// What it computes: the ops that are fused in it.
  const char *name;
  /// Where the model's text has it: the path of a module, `h.attn`; may be
  /// empty.
  const char *path;
  /// What its products are made of, and so what limits it: a TFM_PRODUCTS_...;
  /// that of f32 where it has none.
  const char *products;
  /// How often it runs in a call: once for each layer in a loop.
  uint64_t runs;
  /// Of one run.
  uint64_t flops;
  uint64_t bytes;
  /// Its number in `tfm_variant.kernels`; -1 of a CPU.
  int64_t kernel;
} tfm_launch;

/// Something the model computes: `forward`, `train`, `update`, ...
typedef struct {
  const char *name;
  /// Null where kernels are a device's.
  void (*run)(void *arena, tfm_thread *thread);
  /// Queues the kernels, for an arena at that address of a device: the same
  /// each time, whatever the arena holds. Null where `run` is not.
  void (*enqueue)(uint64_t arena, tfm_queue *queue);
  int32_t input_count;
  int32_t output_count;
  const tfm_buffer *inputs;
  const tfm_buffer *outputs;
  /// Of its matrix products and attention, per call.
  uint64_t flops;
  /// With how many threads it is fastest, as estimated when it was compiled: to
  /// share a launch costs more than it gains where launches are short.
  int64_t threads;
  int64_t launch_count;
  const tfm_launch *launches;
} tfm_function;

/// Bytes that the arena holds before anything runs (`const` tensors).
typedef struct {
  uint64_t offset;
  uint64_t size;
  const void *data;
} tfm_constant;

/// A part of the arena.
typedef struct {
  uint64_t offset;
  uint64_t bytes;
} tfm_range;

/// Floats of a row of parameters, gradients or state.
#define TFM_ROW 1024

/// Some rows of the trained parameters, and at the same places of gradients and
/// of each tensor of the optimizer's state.
typedef struct {
  uint64_t first;
  uint64_t count;
  /// A function that updates some of them takes so many at a time, by which
  /// their count can be divided; 0 where there is none.
  uint64_t block;
} tfm_rows;

/// The model as it is compiled for one kind of machine.
typedef struct {
  /// As `tfmc build --target` and `--cpu` name it: `cpu`, and `znver4`; `cuda`,
  /// and `sm_80`.
  const char *target;
  const char *machine;
  /// What a machine must have to run it, separated by commas: names of LLVM's,
  /// `avx2,fma`. May be empty.
  const char *features;
  uint64_t arena_bytes;
  uint64_t arena_alignment;
  /// What each thread needs in `tfm_thread.scratch`, for packing and tiles.
  uint64_t scratch_bytes;
  /// The arena's parts. Parameters, their copies in bf16, gradients and the
  /// optimizer's state are in one piece each, of 0 bytes where a build has
  /// none.
  tfm_range parameters;
  tfm_range copies;
  tfm_range gradients;
  /// Where the recipe adds up micro-batches as a tree (`train.sum`): room for
  /// sums of gradients that wait for another one, as many times the gradients
  /// as there are at most. No function has to do with it.
  tfm_range sums;
  tfm_range optimizer;
  tfm_range activations;
  /// Of the caches of `prefill` and `decode`, which lie between these.
  uint64_t cache_bytes;
  /// The rows of `update_decayed` and of `update_plain`.
  tfm_rows decayed;
  tfm_rows plain;
  /// One for each of the model's parameters.
  const tfm_place *places;
  int32_t function_count;
  int32_t constant_count;
  const tfm_function *functions;
  const tfm_constant *constants;
  /// Of a device: its kernels, and their code, of which the first image that
  /// fits is loaded. 0 and null of a CPU.
  int64_t kernel_count;
  const tfm_kernel *kernels;
  int64_t image_count;
  const tfm_image *images;
} tfm_variant;

/// What all variants have in common, and the variants, the best one first.
typedef struct {
  uint32_t abi;
  int32_t parameter_count;
  const char *name;
  const char *source;
  /// JSON: an array of {"name", "value"}.
  const char *hyperparameters;
  /// JSON, see docs/design.md, "Recipe schema".
  const char *recipe;
  const tfm_parameter *parameters;
  int64_t variant_count;
  const tfm_variant *variants;
} tfm_model;

extern const tfm_model tfm_model_descriptor;

#ifdef __cplusplus
}
#endif

#endif // TFM_RUNTIME_TFM_MODEL_H
