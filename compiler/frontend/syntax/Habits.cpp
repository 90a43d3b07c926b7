//===- Habits.cpp - words of other languages and libraries ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/syntax/Habits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using llvm::StringRef;

namespace {
/// Words with blanks between them, and what is said of each.
struct Habit {
  const char *words;
  const char *help;
};
} // namespace

static const Habit statements[] = {
    {"for while",
     "layers that repeat are declared, `h = repeat(layers) Block(width)`, and "
     "called once: `h(x)`"},
    {"if elif else",
     "a choice is a value: `x = if condition then a else b`, or element by "
     "element `where(condition, a, b)`"},
    {"def fn func",
     "a method is written `forward(x: [B, T, width]) -> [B, T, width] "
     "{ ... }`, a function of the file `function f(x: [B, T]) -> [B, T] "
     "{ ... }`"},
    {"class struct", "write `module Name(width = 64) { ... }`"},
    {"from using include", "another file is read by `import \"other.tfm\"`; "
                           "the standard modules need no import"},
    {"let var val auto", "a value needs no word before its name: `y = x * 2`"},
    {"self", "members are named directly: `l = Linear(width, width)`"},
    {"assert", "write `require condition, \"what is wrong\"`"},
    {"print", "`tfmc report FILE --shapes` shows the shape of every value"},
    {"pass", "leave it out: a body may be empty"},
    {"buffer", "a tensor that nothing trains is `const name[i: n] = formula`, "
               "or, in checkpoints, `param name: [n] = ones, trainable = "
               "false`"},
    {"with", "there are no contexts: `stop_gradient(x)` has no derivative, and "
             "`dropout` acts in training only"},
};

static const Habit names[] = {
    // Words of the language itself.
    {"None null nil", "write `none`"},
    {"True", "write `true`"},
    {"False", "write `false`"},
    {"lambda", "a function is declared in the file: `function f(x: [B, T]) -> "
               "[B, T] { ... }`"},
    {"torch nn F functional np numpy jnp jax tf keras math",
     "functions and modules have no prefix: `sqrt(x)`, `Linear(width, width)`"},
    // Shapes.
    {"view reshape permute transpose flatten unflatten squeeze unsqueeze "
     "expand_dims swapaxes movedim Flatten Reshape",
     "`rearrange(x, \"B T (heads d) -> B heads T d\")` reshapes and reorders "
     "axes; `.T` swaps the last two"},
    {"shape size ndim dim len numel",
     "sizes have names, those of the signature: `B`, `T`, `width`"},
    {"cat concatenate stack hstack vstack",
     "`concat(a, b, axis = -1)` joins tensors along an axis that they have"},
    {"chunk", "`split(x, 3, axis = -1)` makes equal parts"},
    {"expand broadcast broadcast_to tile",
     "operators broadcast by themselves; `rearrange(x, \"n w -> B n w\")` "
     "repeats x along a new axis"},
    {"repeat_interleave repeat_kv",
     "`attention(q, k, v)` takes fewer heads of keys and values than of "
     "queries by itself; elsewhere operators broadcast"},
    {"roll", "`shift(x, axis = T)` has what stands one place before, and 0 "
             "at the first; what leaves an end comes in at the other by "
             "`concat` of slices such as `x[:, 1:]`"},
    {"flip", "`one_hot(n - 1 - range(n), n) @ x` has the n rows of the axis "
             "before the last the other way round"},
    {"narrow select slice dynamic_slice",
     "slices are written `x[:, 0:4]`, and `x[0]` is the first of an axis"},
    {"index_select take",
     "`gather(table, ids)` has rows of a table; `one_hot(ids, n) @ x` chooses "
     "of the axis before the last"},
    {"scatter scatter_add index_add segment_sum",
     "`one_hot(ids, n).T @ x` adds up the rows of x by their ids"},
    {"bincount histogram", "write `sum(one_hot(ids, n), axis = T)`"},
    {"unique nonzero masked_select",
     "sizes are known while compiling and depend on no value; `where(mask, x, "
     "0.0)` leaves the others out of a sum"},
    {"unfold im2col",
     "pieces side by side are `rearrange(x, \"B (n k) w -> B n (k w)\", k = "
     "4)`; those that overlap `concat` of what `shift` moves"},
    {"interpolate upsample Upsample UpsamplingNearest1d",
     "`rearrange(x, \"B T w -> B (T n) w\", n = 2)` repeats each place"},
    {"max_pool1d avg_pool1d max_pool2d avg_pool2d MaxPool1d AvgPool1d "
     "MaxPool2d AvgPool2d",
     "of pieces `y = rearrange(x, \"B (n k) w -> B n k w\", k = 2)` take "
     "`max(y, axis = -2)` or `mean(y, axis = -2)`"},
    {"adaptive_avg_pool1d adaptive_avg_pool2d AdaptiveAvgPool1d "
     "AdaptiveAvgPool2d GlobalAveragePooling1D",
     "write `mean(x, axis = T)`, whose axis stays with size 1"},
    {"contiguous clone copy to cuda cpu device",
     "leave it out: the compiler decides where and how values are stored"},
    // Masks and constants.
    {"tril triu causal_mask",
     "`attention(q, k, v, causal = true)` masks what comes later; a mask of "
     "your own is `const seen[i: context, j: context] = j <= i`"},
    {"masked_fill", "write `where(mask, value, x)`"},
    {"arange linspace", "`range(n)` has the integers 0, 1, ... n - 1"},
    {"zeros_like ones_like full full_like eye empty",
     "numbers broadcast, so `x * 0.0 + 1.0` is a tensor of ones; tables are "
     "`const t[i: n, j: n] = if i == j then 1.0 else 0.0`"},
    {"diagonal trace",
     "with `const t[i: n, j: n] = if i == j then 1.0 else 0.0` the diagonal is "
     "`sum(x * t)`, the trace `sum(sum(x * t), axis = -2)`"},
    {"diag", "with `const t[i: n, j: n] = if i == j then 1.0 else 0.0` it is "
             "`t * x`"},
    {"pi", "write `3.141592653589793`"},
    {"inf",
     "`attention` has `causal` and `mask`; elsewhere a large number such "
     "as `1e9` does"},
    {"Parameter parameter", "write `param weight: [width] = zeros`"},
    {"Buffer register_buffer", "write `const table[i: context, j: width] = "
                               "...`"},
    // Arithmetic.
    {"matmul mm bmm dot einsum tensordot addmm baddbmm",
     "a matrix product is `a @ b`, with `b.T` for "
     "the transposed of b"},
    {"pow square", "powers are written `x ** 2`"},
    {"maximum fmax", "element by element it is `max(a, b)`"},
    {"minimum fmin", "element by element it is `min(a, b)`"},
    {"clamp clip hardtanh", "write `min(max(x, low), high)`"},
    {"add sub mul div subtract multiply divide true_divide",
     "write `a + b`, `a - b`, `a * b`, `a / b`"},
    {"neg negative", "write `-x`"},
    {"remainder mod fmod floor_divide",
     "write `ids % n` of integers; `//` is of those that are known while "
     "compiling"},
    {"eq ne lt le gt ge equal not_equal less greater",
     "write `a == b`, `a != b`, `a < b`, `a <= b`"},
    {"logical_and logical_or logical_not bitwise_and bitwise_or",
     "write `a and b`, `a or b`, `not a`"},
    {"lerp", "write `a + t * (b - a)`"},
    {"hypot", "write `sqrt(a ** 2 + b ** 2)`"},
    {"logaddexp", "write `max(a, b) + softplus(-abs(a - b))`"},
    {"prod product", "of positive numbers it is `exp(sum(log(x)))`"},
    {"diff", "write `x - shift(x, axis = T)`, whose first element is that of "
             "x"},
    {"reduce_sum reduce_mean reduce_max",
     "they are called `sum`, `mean` and `max`: `sum(x, axis = -1)`"},
    {"cdist", "write `sqrt(sum((rearrange(a, \"n w -> n 1 w\") - b) ** 2) + "
              "1e-12)`"},
    {"fft rfft ifft irfft",
     "of a length that is known it is a product with tables: `const waves[i: "
     "n, j: n] = cos(6.283185307179586 * i * j / n)`, and one of `sin`"},
    {"inv inverse solve det svd qr cholesky eig eigh pinv",
     "there are sums, products and functions of elements, and no other "
     "linear algebra"},
    {"nan_to_num isnan isinf isfinite is_nan",
     "`where(abs(x) < 1e30, x, 0.0)` has 0 for what is not a number or not "
     "finite"},
    {"atan atan2 asin acos arctan arcsin arccos",
     "there are `sin`, `cos` and `tanh`, and no inverse of them"},
    {"norm", "write `sqrt(sum(x ** 2) + 1e-12)`, where the small number is "
             "for rows of zeros, or `rms_normalize(x)`; what the norm of all "
             "gradients is clipped to is a number, `train { clip = 1.0 }`"},
    {"clip_grad_norm clip_grad_norm_ clip_by_global_norm global_norm",
     "what the norm of all gradients is clipped to is a number, `train { clip "
     "= 1.0 }`"},
    {"cumprod cummax cummin logcumsumexp associative_scan selective_scan ema",
     "`cumsum(x, axis = T)` adds up what stands before, and `scan(a, x, axis = "
     "T)` what decays meanwhile, `h[t] = a[t] * h[t - 1] + x[t]`: the product "
     "of all `a` where `x` is 0 behind the first"},
    {"logsumexp", "write `max(x) + log(sum(exp(x - max(x))))`"},
    {"multinomial", "a model gives logits; `generate` chooses the tokens"},
    {"topk argmax sort argsort",
     "`values, ids = top_k(x, k)` has the largest, the largest first; of "
     "logits `generate` chooses the tokens"},
    {"median quantile percentile kthvalue",
     "`values, ids = top_k(x, k)` has the k largest, the largest first"},
    {"cbrt", "of positive numbers it is `x ** (1.0 / 3.0)`"},
    {"argmin", "`values, ids = top_k(-x, 1)` has where the smallest is"},
    {"round floor ceil trunc",
     "`cast(x, int)` cuts off what follows the point: 1.7 becomes 1, and -1.7 "
     "becomes -1"},
    {"sign", "write `where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0))`"},
    {"exp2", "write `exp(x * 0.6931471805599453)`"},
    {"log2", "write `log(x) / 0.6931471805599453`"},
    {"log1p", "write `log(1.0 + x)`"},
    {"expm1", "write `exp(x) - 1.0`"},
    {"reciprocal", "write `1.0 / x`"},
    {"tan", "write `sin(x) / cos(x)`"},
    {"sinh", "write `(exp(x) - exp(-x)) / 2.0`"},
    {"cosh", "write `(exp(x) + exp(-x)) / 2.0`"},
    {"any", "write `sum(float(x)) > 0.0`"},
    {"all", "write `sum(float(not x)) == 0.0`"},
    {"outer", "write `rearrange(a, \"n -> n 1\") * b`"},
    {"pad", "write `concat(0.0 * x[:, 0:1], x, axis = 1)`"},
    {"rand randn rand_like randn_like randint random bernoulli",
     "a `loss` draws with `random_normal([B, T, width])`, or with "
     "`random_uniform([B, T])`, which is below 0.1 at a tenth of the places; "
     "`dropout(x, rate)` acts while training, and parameters begin with "
     "`normal(0.02)`"},
    {"cosine_similarity",
     "write `sum(a * b) / sqrt(sum(a ** 2) * sum(b ** 2) + 1e-12)`"},
    {"l1_loss", "write `mean(abs(a - b))`"},
    {"huber_loss smooth_l1_loss",
     "of `d = abs(a - b)` it is `mean(where(d < 1.0, 0.5 * d ** 2, d - 0.5))`"},
    {"hinge_loss", "of targets y, -1 or 1, it is `mean(relu(1.0 - y * x))`"},
    {"gaussian_nll gaussian_nll_loss",
     "of means m and variances v it is `0.5 * mean(log(v) + (m - y) ** 2 / "
     "v)`"},
    {"kl_div", "of `p = log_softmax(a)` and `q = log_softmax(b)` it is "
               "`sum(exp(p) * (p - q))`"},
    {"nll_loss", "write `cross_entropy(logits, targets)`"},
    {"binary_cross_entropy bce binary_cross_entropy_with_logits "
     "sigmoid_cross_entropy BCEWithLogitsLoss",
     "of logits x and targets y from 0 to 1 it is `softplus(x) - x * y`"},
    {"detach no_grad stop_grad", "write `stop_gradient(x)`"},
    {"grad value_and_grad backward autograd",
     "the compiler differentiates what `train` minimises"},
    {"jit compile vmap", "there is none: all of it is compiled, for the batch "
                         "`B` of the signature"},
    {"checkpoint remat",
     "there is none: what is cheap to compute again is not kept anyway"},
    {"cond", "a choice is a value: `if condition then a else b`, or element "
             "by element `where(condition, a, b)`"},
    {"while_loop fori_loop",
     "layers that repeat are declared, `h = repeat(layers) Block(width)`; what "
     "goes along an axis is a `scan`"},
    {"lecun_normal lecun_uniform glorot_normal he_normal he_uniform orthogonal "
     "variance_scaling xavier_uniform xavier_normal glorot glorot_uniform "
     "kaiming "
     "kaiming_uniform kaiming_normal trunc_normal constant",
     "there are `normal(0.02)`, `truncated_normal(0.02)`, `uniform(-0.1, "
     "0.1)`, `xavier`, `he`, `zeros` and `ones`"},
    {"setup __init__",
     "members stand in the body of the module, and not in a method"},
    {"__call__ call", "it is called `forward`"},
    {"tokenizer", "`tokenizer.size` is the number of its tokens"},
    // Activations.
    {"swish", "`silu(x)` is the same function"},
    {"leaky_relu", "write `where(x > 0.0, x, 0.01 * x)`"},
    {"elu", "write `where(x > 0.0, x, exp(min(x, 0.0)) - 1.0)`"},
    {"relu6", "write `min(relu(x), 6.0)`"},
    {"hardswish", "write `x * min(relu(x + 3.0), 6.0) / 6.0`"},
    {"hardsigmoid", "write `min(relu(x + 3.0), 6.0) / 6.0`"},
    {"logsigmoid log_sigmoid", "write `-softplus(-x)`"},
    {"softmin", "write `softmax(-x)`"},
    {"softsign", "write `x / (1.0 + abs(x))`"},
    {"softshrink", "write `x - min(max(x, -0.5), 0.5)`"},
    {"hardshrink", "write `where(abs(x) > 0.5, x, 0.0)`"},
    {"tanhshrink", "write `x - tanh(x)`"},
    {"threshold", "write `where(x > limit, x, value)`"},
    {"crelu", "write `concat(relu(x), relu(-x))`"},
    {"relu2 squared_relu", "it is called `relu_squared`"},
    {"quick_gelu", "write `x * sigmoid(1.702 * x)`"},
    {"reglu", "declare `mlp = GatedMLP(width, hidden, act = relu)`"},
    {"celu", "write `max(x, 0.0) + min(a * (exp(x / a) - 1.0), 0.0)`"},
    {"prelu", "write `max(x, 0.0) + slope * min(x, 0.0)`, with a `param`"},
    {"selu", "write `1.0507 * where(x > 0.0, x, 1.6733 * (exp(min(x, 0.0)) - "
             "1.0))`"},
    {"glu", "write `a, b = split(x, 2, axis = -1)`, and `a * sigmoid(b)`"},
    {"mish", "write `x * tanh(softplus(x))`"},
    {"gelu_erf gelu_exact", "it is called `gelu`"},
    {"gelu_new gelu_fast gelu_pytorch_tanh", "it is called `gelu_tanh`"},
    {"ReLU GELU SiLU Swish Tanh Sigmoid Softmax Softplus Mish ELU LeakyReLU "
     "Activation",
     "activations are functions: `relu(x)`, or handed on as `act = relu`"},
    // Layers.
    {"linear dense Dense",
     "declare `fc = Linear(inputs, outputs)` in the body of the module, and "
     "call `fc(x)` in `forward`"},
    {"embedding Embed",
     "declare `wte = Embedding(vocab, width)` in the body of the module, and "
     "call `wte(tokens)` in `forward`"},
    {"layer_norm layernorm",
     "declare `ln = LayerNorm(width)` in the body of the module, and call "
     "`ln(x)` in `forward`; `normalize(x)` has no parameters"},
    {"rms_norm rmsnorm",
     "declare `norm = RMSNorm(width)` in the body of the module, and call "
     "`norm(x)` in `forward`; `rms_normalize(x)` has no parameters"},
    {"scaled_dot_product_attention sdpa flash_attention",
     "write `attention(q, k, v, causal = true)`"},
    {"MultiheadAttention MultiHeadAttention MultiheadSelfAttention MHA "
     "CausalSelfAttention Attention",
     "there are `SelfAttention(width, heads)`, `RotaryAttention(width, heads)` "
     "and `CrossAttention(width, heads)`"},
    {"rotary apply_rotary_pos_emb apply_rotary rotate_half Rotary "
     "RotaryEmbedding RotaryPositionalEmbedding",
     "`rope(q, positions(tokens))` turns queries, and keys likewise; "
     "`RotaryAttention(width, heads)` does both"},
    {"PositionalEncoding PositionalEmbedding PositionEmbedding sinusoidal",
     "there are `LearnedPositions(context, width)` and "
     "`SinusoidalPositions(context, width)`, called with the tokens"},
    {"FeedForward FFN feed_forward ffn",
     "there are `MLP(width)`, `SwiGLU(width, hidden)` and `GeGLU(width, "
     "hidden)`"},
    {"Transformer TransformerEncoder TransformerEncoderLayer "
     "TransformerDecoder TransformerDecoderLayer Encoder Decoder Block",
     "a layer is a module of your own, of `SelfAttention(width, heads)`, "
     "`MLP(width)` and norms; `tfmc new` writes such a model"},
    {"MoE MixtureOfExperts Mixture",
     "experts are layers, `experts = repeat(n) Expert(width)`, of which a row "
     "goes through some: `experts(x, weights, ids, only = ids)`"},
    {"Mamba SSM S4", "a state space is a `scan(a, x, axis = T)`: `h[t] = a[t] "
                     "* h[t - 1] + x[t]`"},
    {"drop", "the rate is a hyperparameter of the module, `drop = 0.1`; what "
             "acts is `dropout(x, drop)`"},
    {"DropPath drop_path stochastic_depth StochasticDepth",
     "`x * dropout(x[:, 0:1, 0:1] * 0.0 + 1.0, rate)` leaves out whole "
     "examples of `[B, T, width]`"},
    {"BatchNorm BatchNorm1d BatchNorm2d batch_norm GroupNorm group_norm "
     "InstanceNorm instance_norm",
     "there are `LayerNorm(width)` and `RMSNorm(width)`; over another axis it "
     "is `(x - mean(x, axis = T)) / sqrt(var(x, axis = T) + 1e-5)`"},
    {"Dropout", "it is a function: `dropout(x, 0.1)` in `forward`"},
    {"Sequential ModuleList ModuleDict",
     "a list of modules is called one after another: `net = [Linear(8, 16), "
     "Linear(16, 8)]`; `repeat(n) Block(width)` makes equal layers"},
    {"Identity", "leave it out, or write `if condition then layer(x) else x`"},
    {"Conv1d Conv2d Conv3d Conv ConvTranspose1d ConvTranspose2d LSTM GRU RNN",
     "there is no such layer to call: a convolution is a `Linear` over patches "
     "that `rearrange` makes, or over `concat` of what `shift` moves along an "
     "axis; a linear recurrence is a `scan`, another one a `repeat` over time; "
     "`Conv1D(inputs, outputs)` is a dense layer as GPT-2 stores it"},
    {"CrossEntropyLoss MSELoss",
     "the loss stands in the recipe: `train { loss = cross_entropy() }`"},
};

static const Habit entries[] = {
    {"lr learning_rate weight_decay betas beta1 beta2 momentum epsilon",
     "the optimizer has it: `optimizer = adamw(lr = 1e-3, betas = (0.9, 0.95), "
     "eps = 1e-8, weight_decay = 0.1)`"},
    {"warmup warmup_steps warmup_iters min_lr final_lr scheduler lr_decay",
     "the schedule has it: `schedule = cosine(warmup = 100, final = 1e-4)`"},
    {"batch_size batchsize", "it is called `batch`"},
    {"seq_len seq_length block_size max_length context context_length",
     "it is called `sequence` in `train`; `context` is a hyperparameter of the "
     "model"},
    {"max_steps iters max_iters iterations num_steps", "it is called `steps`"},
    {"epoch num_epochs max_epochs", "it is called `epochs`"},
    {"grad_accum gradient_accumulation gradient_accumulation_steps",
     "it is called `accumulate`"},
    {"grad_clip gradient_clipping max_grad_norm clip_grad clip_norm "
     "clip_grad_norm clip_grad_norm_",
     "it is called `clip`"},
    {"eval_interval eval_every evaluate eval", "write `validate = every(250)`"},
    {"save save_every checkpoint_interval", "write `checkpoint = every(250)`"},
    {"log_interval log", "every step stands in the run's `log.jsonl`"},
    {"param_groups parameter_groups groups lr_mult lr_scale lr_multiplier "
     "layer_decay llrd layerwise_lr_decay",
     "name what has a rate of its own, `rates = (\"wte.*\", 0.1)`: so much of "
     "the optimizer's `lr`"},
    {"decay_mask exclude exclude_from_weight_decay no_weight_decay",
     "it is called `no_decay`: patterns of names, `no_decay = \"*.bias\"`"},
    {"freeze frozen trainable requires_grad target_modules modules_to_save "
     "peft lora",
     "name what is trained, `only = \"*.lora_*\"`: all else is frozen"},
    {"dropout drop", "it is a hyperparameter of the model, which calls "
                     "`dropout(x, drop)`"},
    {"label_smoothing ignore ignore_index",
     "the loss has it: `loss = cross_entropy(ignore = none, label_smoothing = "
     "0.1)`"},
    {"dtype torch_dtype mixed_precision amp autocast fp16 bf16 f16 f32",
     "it is called `precision`: `f32` or `bf16`"},
    {"threads workers num_workers device",
     "it is no part of the recipe; `--help` of the binary and of `tfmc build` "
     "lists options"},
    {"patience early_stopping", "write `stop = early(patience = 5)`"},
    {"max_new_tokens length", "it is called `tokens` in `generate`"},
    {"prompt", "it is given when the model runs, `generate --prompt`; while "
               "training `sample = every(500, prompt = \"ROMEO:\")`"},
    {"repetition_penalty", "it is called `repeat_penalty`"},
    {"checkpointing activation_checkpointing gradient_checkpointing",
     "there is none: what is cheap to compute again is not kept anyway"},
    {"loss_scale grad_scaler",
     "there is none: bf16 has the exponents of f32 and needs no scale"},
    {"compile", "there is none: all of it is compiled"},
    {"split val_split test_split test_size", "it is called `validation`"},
    {"val val_file val_files val_data valid dev test",
     "it is called `validation_files`, or `validation` where it is a share"},
};

/// Of optimizers and schedules.
static const Habit arguments[] = {
    {"learning_rate", "it is called `lr`"},
    {"beta1 beta2 beta_1 beta_2 b1 b2", "write `betas = (0.9, 0.999)`"},
    {"epsilon", "it is called `eps`"},
    {"wd l2", "it is called `weight_decay`"},
    {"warmup_steps warmup_iters", "it is called `warmup`"},
    {"min_lr final_lr eta_min", "it is called `final`"},
    {"no_decay decay_mask exclude",
     "`decay = rank >= 2` leaves out biases and norms; of names it is an entry "
     "of its own, `train { no_decay = \"wpe.*\" }`"},
    {"warmup_ratio warmup_fraction",
     "`warmup` counts updates: a tenth of 1000 is `warmup = 100`"},
};

/// Numbers, of which the entries of a recipe have words of their own.
static const Habit words[] = {
    {"bfloat16 half float16 fp16 mixed amp", "bf16"},
    {"float float32 fp32 single full", "f32"},
};

static StringRef helpIn(llvm::ArrayRef<Habit> table, StringRef word) {
  for (const Habit &habit : table) {
    StringRef words = habit.words;
    while (!words.empty()) {
      auto [first, rest] = words.split(' ');
      if (first == word)
        return habit.help;
      words = rest;
    }
  }
  return "";
}

StringRef tfm::statementHabit(StringRef word) {
  return helpIn(statements, word);
}

StringRef tfm::entryHabit(StringRef name) { return helpIn(entries, name); }

StringRef tfm::entryHabit(StringRef path, StringRef name,
                          llvm::ArrayRef<std::string> known) {
  bool isBlock = path == "train" || path == "generate" || path == "data";
  return isBlock ? entryHabit(name) : argumentHabit(name, known);
}

StringRef tfm::argumentHabit(StringRef name,
                             llvm::ArrayRef<std::string> known) {
  StringRef help = helpIn(arguments, name);
  StringRef meant = help.split('`').second.take_while(
      [](char c) { return c == '_' || llvm::isAlpha(c); });
  return llvm::is_contained(known, meant) ? help : "";
}

StringRef tfm::nameHabit(StringRef name) { return helpIn(names, name); }

StringRef tfm::wordHabit(StringRef word, llvm::ArrayRef<StringRef> known) {
  StringRef meant = helpIn(words, word);
  return llvm::is_contained(known, meant) ? meant : "";
}
