//===- AttentionTest.cpp - attention against plain loops in f64 -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Attention.h"
#include "compiler/target/cpu/TileKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/support/float16.h"
#include "tests/unit/kernels/KernelTest.h"
#include "tests/unit/kernels/Philox.h"
#include "tests/unit/kernels/Tiles.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace tfm;
using namespace tfm::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  int64_t batches, heads, kvHeads, queries, keys, d, e;
  bool causal = false;
  std::optional<int64_t> window = {};
  std::optional<double> softcap = {};
  std::optional<double> dropout = {};
  /// 0: none, 1: f32, 2: bytes.
  int mask = 0;
  int64_t maskBatches = 1, maskHeads = 1;
  bool dmask = false;
  /// Columns of the biases by distance, and whether their cotangents are
  /// wanted.
  int64_t distances = 0;
  bool ddistance = false;
  /// q, k and v in one [B, T, (heads + 2 kv_heads) * d] buffer, as a projection
  /// leaves them (needs queries == keys and d == e).
  bool interleaved = false;
  /// q, k, v and what comes of them lie in bf16.
  bool narrow = false;
  /// Where the first query of each batch is among the keys of a cache: forward
  /// only.
  std::vector<int32_t> starts = {};
  /// Position p of a cache lies in row p mod `keys`.
  bool ring = false;
  /// Keys and values are integers with a scale for each row: forward only.
  bool quantised = false;
  /// Keys and values lie as [S, B, heads, width], as those of several texts do.
  bool sideBySide = false;

  bool isForwardOnly() const { return !starts.empty() || quantised; }
  /// The position of key `s`: in a ring the newest that has its row, below 0
  /// where none has come to it.
  int64_t keyPosition(int64_t b, int64_t s) const {
    int64_t newest = position(b, queries - 1);
    if (!ring)
      return s;
    return s <= newest ? newest - (newest - s) % keys : -1;
  }
  /// Whether some query may see key `s` but for window and mask.
  bool isFilled(int64_t b, int64_t s) const {
    int64_t key = keyPosition(b, s);
    return starts.empty() || (key >= 0 && key < starts[b] + queries);
  }
  int64_t position(int64_t b, int64_t t) const {
    return starts.empty() ? t : starts[b] + t;
  }

  double scale() const { return 1.0 / std::sqrt((double)d); }
  std::string text() const {
    return "B" + std::to_string(batches) + " H" + std::to_string(heads) + "/" +
           std::to_string(kvHeads) + " T" + std::to_string(queries) + " S" +
           std::to_string(keys) + " d" + std::to_string(d) + " e" +
           std::to_string(e) + (causal ? " causal" : "") +
           (window ? " window" : "") + (softcap ? " softcap" : "") +
           (dropout ? " dropout" : "") + " mask" + std::to_string(mask) +
           (narrow ? " bf16" : "") + (starts.empty() ? "" : " cache") +
           (ring ? " ring" : "") + (quantised ? " int8" : "") +
           (sideBySide ? " side by side" : "") +
           (distances ? " distances" : "");
  }
};

constexpr std::array<int32_t, 4> rng{17, 4, 9, 1};
constexpr int64_t layer = 3, site = 6, accumulate = 2;

/// A [B, heads, rows, width] view of a buffer.
struct View {
  int64_t offset, batchStride, headStride, rowStride;
  int64_t at(int64_t b, int64_t h, int64_t row, int64_t column) const {
    return offset + b * batchStride + h * headStride + row * rowStride + column;
  }
};

struct Layout {
  View q, k, v, out;
  int64_t qSize, kSize, vSize;
};

Layout layoutOf(const Case &c) {
  Layout l;
  // Heads of the output are interleaved: [B, T, heads, e].
  l.out = {0, c.queries * c.heads * c.e, c.e, c.heads * c.e};
  if (c.interleaved) {
    int64_t row = (c.heads + 2 * c.kvHeads) * c.d;
    l.q = {0, c.queries * row, c.d, row};
    l.k = {c.heads * c.d, c.queries * row, c.d, row};
    l.v = {(c.heads + c.kvHeads) * c.d, c.queries * row, c.d, row};
    l.qSize = l.kSize = l.vSize = c.batches * c.queries * row;
    return l;
  }
  auto plain = [&](int64_t heads, int64_t rows, int64_t width) {
    return View{0, heads * rows * width, rows * width, width};
  };
  l.q = plain(c.heads, c.queries, c.d);
  auto kept = [&](int64_t width) {
    if (!c.sideBySide)
      return plain(c.kvHeads, c.keys, width);
    return View{0, c.kvHeads * width, width, c.batches * c.kvHeads * width};
  };
  l.k = kept(c.d);
  l.v = kept(c.e);
  l.qSize = c.batches * c.heads * c.queries * c.d;
  l.kSize = c.batches * c.kvHeads * c.keys * c.d;
  l.vSize = c.batches * c.kvHeads * c.keys * c.e;
  return l;
}

AttentionSpec specOf(Kernels &kernels, const Case &c) {
  Layout l = layoutOf(c);
  Type f32 = kernels.builder.getF32Type();
  Type element = c.narrow ? kernels.builder.getBF16Type() : f32;
  Type kept = c.quantised ? kernels.builder.getI8Type() : element;
  auto type = [&](int64_t heads, int64_t rows, int64_t width, const View &v,
                  Type element) {
    return MemRefType::get(
        {c.batches, heads, rows, width}, element,
        StridedLayoutAttr::get(&kernels.context, v.offset,
                               {v.batchStride, v.headStride, v.rowStride, 1}));
  };
  AttentionSpec spec;
  spec.q = spec.dq = type(c.heads, c.queries, c.d, l.q, element);
  spec.k = spec.dk = type(c.kvHeads, c.keys, c.d, l.k, kept);
  spec.v = spec.dv = type(c.kvHeads, c.keys, c.e, l.v, kept);
  spec.out = spec.dout = type(c.heads, c.queries, c.e, l.out, element);
  if (c.quantised)
    spec.keyScale = spec.valueScale =
        MemRefType::get({c.batches, c.kvHeads, c.keys, 1}, f32);
  spec.lse = MemRefType::get({c.batches, c.heads, c.queries}, f32);
  SmallVector<int64_t> maskShape{c.maskBatches, c.maskHeads, c.queries, c.keys};
  if (c.mask)
    spec.mask = MemRefType::get(
        maskShape, c.mask == 1 ? f32 : (Type)kernels.builder.getI8Type());
  if (!c.starts.empty())
    spec.start = MemRefType::get({c.batches}, kernels.builder.getI32Type());
  if (c.dmask)
    spec.dmask = MemRefType::get(maskShape, f32);
  if (c.distances)
    spec.distanceBias = MemRefType::get({c.heads, c.distances}, f32);
  if (c.ddistance)
    spec.ddistance = spec.distanceBias;
  spec.causal = c.causal;
  spec.scale = c.scale();
  spec.ring = c.ring;
  spec.window = c.window;
  spec.softcap = c.softcap;
  spec.dropout = c.dropout;
  spec.site = site;
  spec.microSteps = accumulate;
  return spec;
}

float rounded(float x) { return fromBFloat16(toBFloat16(x)); }

/// The same numbers as they lie in memory, bf16 where the case says so.
Buffer stored(const Case &c, const Buffer &numbers) {
  Buffer memory(c.narrow ? (numbers.size() + 1) / 2 : numbers.size());
  for (int64_t i = 0; i < numbers.size(); ++i)
    if (c.narrow)
      reinterpret_cast<uint16_t *>(memory.data())[i] = toBFloat16(numbers[i]);
    else
      memory[i] = numbers[i];
  return memory;
}

/// The numbers of `memory`, `size` of them.
Buffer read(const Case &c, const Buffer &memory, int64_t size) {
  Buffer numbers(size);
  for (int64_t i = 0; i < size; ++i)
    numbers[i] =
        c.narrow
            ? fromBFloat16(reinterpret_cast<const uint16_t *>(memory.data())[i])
            : memory[i];
  return numbers;
}

/// The operands and the expected results of one case. Operands are exact in the
/// type that they are stored in, and so is the output that the derivative
/// reads, so that all of the arithmetic is that of f32; but in pairs and on
/// tiles weights and cotangents of scores are rounded to bf16, before values,
/// queries or keys are added up by them. What that may change a result by, in
/// units of such a rounding, is the same sum of magnitudes.
struct Reference {
  Reference(const Case &c, std::mt19937 &random)
      : c(c), l(layoutOf(c)), q(l.qSize), k(l.kSize), v(l.vSize),
        dout(c.batches * c.heads * c.queries * c.e),
        mask(c.maskBatches * c.maskHeads * c.queries * c.keys),
        distances(c.heads * c.distances), ddistance(distances.size()),
        out(dout.size()), lse(c.batches * c.heads * c.queries), dq(l.qSize),
        dk(l.kSize), dv(l.vSize), dmask(mask.size()), roundedOut(out.size()),
        roundedDq(l.qSize), roundedDk(l.kSize), roundedDv(l.vSize),
        integersOfK((l.kSize + 3) / 4), integersOfV((l.vSize + 3) / 4),
        kScale(c.batches * c.kvHeads * c.keys), vScale(kScale.size()) {
    q.randomize(random, 2.0f);
    k.randomize(random, 2.0f);
    v.randomize(random);
    dout.randomize(random);
    mask.randomize(random);
    if (c.distances)
      distances.randomize(random);
    if (c.narrow)
      for (Buffer *operand : {&q, &k, &v, &dout})
        for (int64_t i = 0; i < operand->size(); ++i)
          (*operand)[i] = rounded((*operand)[i]);
    if (c.quantised) {
      quantise(random, k, l.k, c.d, integersOfK, kScale);
      quantise(random, v, l.v, c.e, integersOfV, vScale);
    }
    if (c.interleaved) {
      std::copy(q.data(), q.data() + q.size(), k.data());
      std::copy(q.data(), q.data() + q.size(), v.data());
    }
    // What lies behind the newest token is anything.
    for (int64_t b = 0; b < c.batches; ++b)
      for (int64_t h = 0; h < c.kvHeads; ++h)
        for (int64_t s = 0; s < c.keys; ++s)
          if (!c.isFilled(b, s)) {
            std::fill_n(&k[l.k.at(b, h, s, 0)], c.d, NAN);
            std::fill_n(&v[l.v.at(b, h, s, 0)], c.e, NAN);
            kScale[(b * c.kvHeads + h) * c.keys + s] = NAN;
            vScale[(b * c.kvHeads + h) * c.keys + s] = NAN;
          }
    // A mask of bytes hides a quarter of the keys, and everything from the
    // second query.
    bytes = Buffer((mask.size() + 3) / 4);
    auto *byte = reinterpret_cast<int8_t *>(bytes.data());
    for (int64_t i = 0; i < mask.size(); ++i)
      byte[i] = random() % 4 != 0 && i / c.keys % c.queries != 1;
    compute();
  }

  /// Makes rows of integers, their scales, and the numbers that both stand for.
  void quantise(std::mt19937 &random, Buffer &numbers, const View &rows,
                int64_t width, Buffer &integers, Buffer &scales) {
    std::uniform_real_distribution<float> anyScale(0.001f, 0.02f);
    auto *stored = reinterpret_cast<int8_t *>(integers.data());
    for (int64_t b = 0; b < c.batches; ++b)
      for (int64_t h = 0; h < c.kvHeads; ++h)
        for (int64_t s = 0; s < c.keys; ++s) {
          float scale = anyScale(random);
          scales[(b * c.kvHeads + h) * c.keys + s] = scale;
          for (int64_t i = 0; i < width; ++i) {
            int64_t at = rows.at(b, h, s, i);
            stored[at] = static_cast<int8_t>(random() % 255 - 127);
            numbers[at] = scale * static_cast<float>(stored[at]);
          }
        }
  }

  int64_t maskAt(int64_t b, int64_t h, int64_t t, int64_t s) const {
    return (((c.maskBatches > 1 ? b : 0) * c.maskHeads +
             (c.maskHeads > 1 ? h : 0)) *
                c.queries +
            t) *
               c.keys +
           s;
  }

  /// Where the bias of a pair stands, or -1.
  int64_t distanceAt(int64_t b, int64_t h, int64_t t, int64_t s) const {
    int64_t column = c.position(b, t) - c.keyPosition(b, s) +
                     (c.causal ? 0 : (c.distances - 1) / 2);
    return column < 0 || column >= c.distances ? -1 : h * c.distances + column;
  }

  void compute() {
    int64_t group = c.heads / c.kvHeads;
    std::vector<double> x(c.keys), cap(c.keys), p(c.keys), kept(c.keys),
        dp(c.keys);
    std::vector<double> dkSum(dk.size()), dvSum(dv.size()), dmSum(dmask.size()),
        ddSum(ddistance.size());
    auto addTo = [](float &sum, double term) {
      sum += static_cast<float>(std::fabs(term));
    };
    for (int64_t b = 0; b < c.batches; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t t = 0; t < c.queries; ++t) {
          int64_t g = h / group;
          double largest = -infinity;
          for (int64_t s = 0; s < c.keys; ++s) {
            double z = 0;
            for (int64_t i = 0; i < c.d; ++i)
              z += (double)q[l.q.at(b, h, t, i)] * k[l.k.at(b, g, s, i)];
            z *= c.scale();
            cap[s] = c.softcap ? *c.softcap * std::tanh(z / *c.softcap) : z;
            x[s] = cap[s];
            int64_t column = distanceAt(b, h, t, s);
            if (column >= 0)
              x[s] += distances[column];
            if (c.mask == 1)
              x[s] += mask[maskAt(b, h, t, s)];
            int64_t at = c.position(b, t), key = c.keyPosition(b, s);
            if (key < 0 || (c.causal && key > at) ||
                (c.window && at - key >= *c.window) ||
                (c.mask == 2 && !reinterpret_cast<const int8_t *>(
                                    bytes.data())[maskAt(b, h, t, s)]))
              x[s] = -infinity;
            largest = std::max(largest, x[s]);
          }
          double sum = 0;
          for (int64_t s = 0; s < c.keys; ++s)
            sum += largest == -infinity ? 0.0 : std::exp(x[s] - largest);
          double logSum = sum == 0 ? -infinity : largest + std::log(sum);
          lse[(b * c.heads + h) * c.queries + t] = logSum;
          for (int64_t s = 0; s < c.keys; ++s) {
            p[s] = sum == 0 ? 0.0 : std::exp(x[s] - logSum);
            bool keep =
                !c.dropout ||
                dropoutKeeps(rng, accumulate, site, layer,
                             (b * c.heads + h) * c.queries + t, s, *c.dropout);
            kept[s] = keep ? 1.0 / (1.0 - c.dropout.value_or(0.0)) : 0.0;
          }
          double dot = 0;
          for (int64_t j = 0; j < c.e; ++j) {
            double value = 0;
            for (int64_t s = 0; s < c.keys; ++s)
              if (c.isFilled(b, s)) {
                double term = p[s] * kept[s] * v[l.v.at(b, g, s, j)];
                value += term;
                addTo(roundedOut[l.out.at(b, h, t, j)], term);
              }
            out[l.out.at(b, h, t, j)] = value;
            dot += (c.narrow ? rounded(value) : value) *
                   dout[l.out.at(b, h, t, j)];
          }
          for (int64_t s = 0; s < c.keys; ++s) {
            dp[s] = 0;
            for (int64_t j = 0; j < c.e; ++j) {
              double g0 = dout[l.out.at(b, h, t, j)];
              dp[s] += g0 * v[l.v.at(b, g, s, j)];
              dvSum[l.v.at(b, g, s, j)] += p[s] * kept[s] * g0;
              addTo(roundedDv[l.v.at(b, g, s, j)], p[s] * kept[s] * g0);
            }
            double ds = p[s] * (dp[s] * kept[s] - dot);
            if (c.mask == 1)
              dmSum[maskAt(b, h, t, s)] += ds;
            if (distanceAt(b, h, t, s) >= 0)
              ddSum[distanceAt(b, h, t, s)] += ds;
            if (c.softcap)
              ds *= 1 - cap[s] * cap[s] / (*c.softcap * *c.softcap);
            dp[s] = ds * c.scale();
          }
          for (int64_t i = 0; i < c.d; ++i) {
            double sumQ = 0;
            for (int64_t s = 0; s < c.keys; ++s) {
              sumQ += dp[s] * k[l.k.at(b, g, s, i)];
              dkSum[l.k.at(b, g, s, i)] += dp[s] * q[l.q.at(b, h, t, i)];
              addTo(roundedDq[l.q.at(b, h, t, i)],
                    dp[s] * k[l.k.at(b, g, s, i)]);
              addTo(roundedDk[l.k.at(b, g, s, i)],
                    dp[s] * q[l.q.at(b, h, t, i)]);
            }
            dq[l.q.at(b, h, t, i)] = sumQ;
          }
        }
    std::copy(dmSum.begin(), dmSum.end(), dmask.data());
    std::copy(ddSum.begin(), ddSum.end(), ddistance.data());
    // Interleaved buffers hold three results; each checks its own part.
    std::copy(dkSum.begin(), dkSum.end(), dk.data());
    std::copy(dvSum.begin(), dvSum.end(), dv.data());
  }

  Case c;
  Layout l;
  Buffer q, k, v, dout, mask, distances, ddistance, out, lse, dq, dk, dv, dmask,
      bytes{1};
  Buffer roundedOut, roundedDq, roundedDk, roundedDv;
  Buffer integersOfK, integersOfV, kScale, vScale;
};

/// `relative`: what rounding a result itself may add. `rounded`, where it is
/// not null: what roundings of terms may add, in units of half of the last of
/// eight bits.
void near(const Buffer &got, const Buffer &expected, double tolerance,
          double relative, const Buffer *rounded, const char *what) {
  double largest = 1;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected[i]))
      largest = std::max(largest, std::fabs((double)expected[i]));
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isinf(expected[i]))
      ASSERT_EQ(got[i], expected[i]) << what << " " << i;
    else
      ASSERT_NEAR(got[i], expected[i],
                  tolerance * largest + relative * std::fabs(expected[i]) +
                      (rounded ? 0x1p-8 * (*rounded)[i] : 0.0))
          << what << " " << i;
}

/// What multiplies bf16.
enum class Bf16By { Vectors, Pairs, Tiles, EmulatedTiles };

void checkOn(StringRef cpu, Bf16By by, const std::vector<Case> &cases) {
  SCOPED_TRACE(cpu.str() + (by == Bf16By::Vectors ? ""
                            : by == Bf16By::Pairs ? ", pairs"
                                                  : ", tiles"));
  Kernels kernels(cpu);
  kernels.target.bf16Pairs = by == Bf16By::Pairs;
  kernels.target.bf16Tiles = by == Bf16By::Tiles || by == Bf16By::EmulatedTiles;
  std::vector<int64_t> forward, backward;
  for (size_t i = 0; i < cases.size(); ++i) {
    AttentionSpec spec = specOf(kernels, cases[i]);
    Kernel kernel =
        emitAttention(kernels.builder, *kernels.module,
                      "forward" + std::to_string(i), spec, kernels.target);
    ASSERT_TRUE(kernel.func);
    forward.push_back(kernel.scratchBytes);
    if (cases[i].isForwardOnly()) {
      backward.push_back(0);
      continue;
    }
    kernel = emitAttentionBackward(kernels.builder, *kernels.module,
                                   "backward" + std::to_string(i), spec,
                                   kernels.target);
    ASSERT_TRUE(kernel.func);
    backward.push_back(kernel.scratchBytes);
  }
  if (by == Bf16By::EmulatedTiles)
    emulateTiles(*kernels.module);
  if (by == Bf16By::Tiles)
    shapeTiles();
  kernels.compile();
  std::mt19937 random(3);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &c = cases[i];
    SCOPED_TRACE(c.text());
    Reference r(c, random);
    struct Results {
      Buffer out, lse, dq, dk, dv, dmask, ddistance;
    };
    Buffer q = stored(c, r.q), k = stored(c, r.k), v = stored(c, r.v),
           dout = stored(c, r.dout), out = stored(c, r.out);
    Buffer starts(c.batches);
    std::copy(c.starts.begin(), c.starts.end(),
              reinterpret_cast<int32_t *>(starts.data()));
    std::vector<Results> all;
    for (int64_t threads : {1, 2, 3}) {
      Results x{Buffer(out.size()),        Buffer(r.lse.size()),
                Buffer(q.size()),          Buffer(k.size()),
                Buffer(v.size()),          Buffer(r.dmask.size()),
                Buffer(r.ddistance.size())};
      std::vector<Buffer *> buffers{&q, c.quantised ? &r.integersOfK : &k,
                                    c.quantised ? &r.integersOfV : &v};
      Buffer *mask = c.mask == 1 ? &r.mask : &r.bytes;
      if (c.mask)
        buffers.push_back(mask);
      if (!c.starts.empty())
        buffers.push_back(&starts);
      if (c.quantised)
        buffers.insert(buffers.end(), {&r.kScale, &r.vScale});
      if (c.distances)
        buffers.push_back(&r.distances);
      buffers.insert(buffers.end(), {&x.out, &x.lse});
      kernels.run("forward" + std::to_string(i), buffers, forward[i], threads,
                  rng, layer);
      if (c.isForwardOnly()) {
        all.push_back(std::move(x));
        continue;
      }
      // Of bf16 the expected output: the other neighbour of a number that lies
      // in the middle of two is far away.
      buffers = {&q, &k, &v, c.narrow ? &out : &x.out, &x.lse, &dout};
      if (c.mask)
        buffers.push_back(mask);
      if (c.distances)
        buffers.push_back(&r.distances);
      buffers.insert(buffers.end(), {&x.dq, &x.dk, &x.dv});
      if (c.dmask)
        buffers.push_back(&x.dmask);
      if (c.ddistance)
        buffers.push_back(&x.ddistance);
      kernels.run("backward" + std::to_string(i), buffers, backward[i], threads,
                  rng, layer);
      all.push_back(std::move(x));
    }
    // Sums of up to `keys` f32 terms, scores of a few units.
    double tolerance = 1e-6 * std::sqrt((double)c.keys);
    auto check = [&](const Buffer &got, const Buffer &expected,
                     const Buffer &rounded, const char *what) {
      // bf16 has eight bits.
      near(read(c, got, expected.size()), expected, tolerance,
           c.narrow ? 0x1p-8 : 0.0, by == Bf16By::Vectors ? nullptr : &rounded,
           what);
    };
    check(all[0].out, r.out, r.roundedOut, "out");
    near(all[0].lse, r.lse, 1e-6, 0.0, nullptr, "lse");
    if (!c.isForwardOnly()) {
      check(all[0].dq, r.dq, r.roundedDq, "dq");
      check(all[0].dk, r.dk, r.roundedDk, "dk");
      check(all[0].dv, r.dv, r.roundedDv, "dv");
    }
    if (c.dmask)
      near(all[0].dmask, r.dmask, tolerance, 0.0, nullptr, "dmask");
    if (c.ddistance)
      near(all[0].ddistance, r.ddistance, tolerance, 0.0, nullptr, "ddistance");
    for (size_t t = 1; t < all.size(); ++t)
      for (auto part :
           {&Results::out, &Results::lse, &Results::dq, &Results::dk,
            &Results::dv, &Results::dmask, &Results::ddistance})
        ASSERT_EQ(std::memcmp((all[0].*part).data(), (all[t].*part).data(),
                              4 * (all[0].*part).size()),
                  0)
            << "other bits with other threads";
  }
}

/// Those that pairs and tiles may compute, in bf16.
std::vector<Case> inPairs(const std::vector<Case> &cases) {
  std::vector<Case> result;
  for (Case c : cases)
    if (c.queries > tileSide && !c.ring && !c.quantised) {
      c.narrow = true;
      result.push_back(c);
    }
  return result;
}

/// On all processors whose code runs here, in pairs where this one has the
/// instruction, be it fast or not, and on tiles, emulated where there are none.
void check(const std::vector<Case> &cases) {
  for (StringRef cpu : runnableCpus())
    checkOn(cpu, Bf16By::Vectors, cases);
  CpuMachine native = llvm::cantFail(CpuMachine::native());
  if (native.roundsToBf16)
    checkOn("native", Bf16By::Pairs, inPairs(cases));
  if (native.withTiles())
    checkOn("native+amx", Bf16By::Tiles, inPairs(cases));
  else if (native.lanes == tileSide)
    checkOn("native", Bf16By::EmulatedTiles, inPairs(cases));
}

} // namespace

TEST(Attention, TheModelsThatShip) {
  Case addition{3, 4, 4, 9, 9, 16, 16};
  addition.causal = true;
  addition.interleaved = true;
  Case shakespeare{1, 4, 4, 64, 64, 32, 32};
  shakespeare.causal = true;
  shakespeare.interleaved = true;
  Case large{1, 2, 2, 256, 256, 64, 64};
  large.causal = true;
  large.interleaved = true;
  large.dropout = 0.2;
  check({addition, shakespeare, large});
}

TEST(Attention, OddSizes) {
  std::vector<Case> cases{
      {1, 1, 1, 1, 1, 1, 1},    {2, 1, 1, 1, 7, 3, 5},
      {1, 2, 2, 17, 29, 8, 24}, {1, 1, 1, 33, 15, 20, 16},
      {2, 3, 1, 47, 47, 16, 7}, {1, 4, 2, 70, 131, 48, 80},
  };
  size_t plain = cases.size();
  for (size_t i = 0; i < plain; ++i) {
    Case c = cases[i];
    c.causal = true;
    cases.push_back(c);
    c.dropout = 0.25;
    cases.push_back(c);
  }
  check(cases);
}

TEST(Attention, WindowSoftcapAndMasks) {
  Case window{1, 2, 2, 100, 100, 16, 16};
  window.window = 13;
  Case causalWindow = window;
  causalWindow.causal = true;
  Case dropoutWindow = causalWindow;
  dropoutWindow.dropout = 0.5;
  // Queries past the last key's window see nothing.
  Case empty{1, 1, 1, 60, 20, 16, 16};
  empty.causal = true;
  empty.window = 5;
  Case softcap{2, 2, 1, 40, 50, 16, 16};
  softcap.softcap = 1.5;
  Case additive{2, 2, 2, 37, 45, 16, 12};
  additive.mask = 1;
  additive.maskBatches = 2;
  additive.maskHeads = 2;
  additive.dmask = true;
  Case shared = additive;
  shared.maskBatches = 1;
  shared.causal = true;
  shared.softcap = 3.0;
  shared.dropout = 0.1;
  Case bytes{2, 2, 2, 37, 45, 16, 16};
  bytes.mask = 2;
  bytes.maskHeads = 2;
  Case bytesCausal = bytes;
  bytesCausal.causal = true;
  bytesCausal.dropout = 0.3;
  check({window, causalWindow, dropoutWindow, empty, softcap, additive, shared,
         bytes, bytesCausal});
}

TEST(Attention, OfBf16) {
  std::vector<Case> cases{
      {1, 1, 1, 1, 1, 1, 1},     {1, 2, 1, 1, 300, 16, 16},
      {2, 1, 1, 47, 47, 16, 7},  {1, 4, 2, 70, 131, 48, 80},
      {1, 2, 2, 64, 64, 64, 64},
  };
  size_t plain = cases.size();
  for (size_t i = 0; i < plain; ++i) {
    Case c = cases[i];
    c.causal = true;
    cases.push_back(c);
  }
  for (Case &c : cases)
    c.narrow = true;
  check(cases);
}

namespace {

/// Queries, keys and widths of heads that fill panels and do not.
std::vector<Case> casesOfPanels() {
  std::vector<Case> cases;
  for (int64_t width : {16, 32, 40, 64, 80, 96, 128})
    for (int64_t length : {17, 31, 64, 127, 193}) {
      Case c{1, 2, 1, length, length, width, width};
      c.causal = true;
      c.interleaved = width % 32 == 0;
      cases.push_back(c);
    }
  cases.push_back({2, 4, 2, 37, 300, 33, 16});
  cases.push_back({1, 1, 1, 300, 37, 16, 33});
  return inPairs(cases);
}

} // namespace

TEST(Attention, InPairs) {
  if (!llvm::cantFail(CpuMachine::native()).roundsToBf16)
    GTEST_SKIP() << "this processor has no AVX512-BF16";
  checkOn("native", Bf16By::Pairs, casesOfPanels());
}

// Emulated on machines that have tiles, too.
TEST(Attention, OnTiles) {
  CpuMachine native = llvm::cantFail(CpuMachine::native());
  if (native.lanes == tileSide)
    checkOn("native", Bf16By::EmulatedTiles, casesOfPanels());
  if (native.withTiles())
    checkOn("native+amx", Bf16By::Tiles, casesOfPanels());
}

// Softmax over several blocks of keys, whose largest scores differ, and sums
// over them. Of bf16, keys are always cut into blocks.
TEST(Attention, SeveralBlocksOfKeys) {
  Case causal{1, 4, 2, 523, 523, 16, 16};
  causal.narrow = true;
  causal.causal = true;
  Case all = causal;
  all.causal = false;
  Case dropout = causal;
  dropout.dropout = 0.25;
  Case window = causal;
  window.window = 71;
  Case empty = window;
  empty.causal = false;
  empty.keys = 271;
  Case additive{2, 2, 1, 129, 577, 8, 12};
  additive.narrow = true;
  additive.mask = 1;
  additive.maskHeads = 2;
  additive.dmask = true;
  additive.softcap = 3.0;
  Case bytes{2, 2, 1, 301, 301, 12, 16};
  bytes.narrow = true;
  bytes.mask = 2;
  bytes.maskBatches = 2;
  bytes.causal = true;
  bytes.dropout = 0.5;
  check({causal, all, dropout, window, empty, additive, bytes});
}

// More than a quarter of the second-level cache: f32 is copied, too.
TEST(Attention, LongTexts) {
  Case causal{1, 1, 1, 1031, 1031, 64, 64};
  causal.causal = true;
  causal.interleaved = true;
  Case odd{1, 2, 1, 569, 790, 150, 33};
  odd.window = 100;
  check({causal, odd});
}

// New tokens see the part of a cache that is filled, of each row its own, and
// nothing of what lies behind: one, a few, and chunks of a prompt, up to the
// end of the cache and beyond.
TEST(Attention, OfACache) {
  std::vector<Case> cases;
  for (int64_t queries : {1, 2, 8, 9, 40})
    for (bool narrow : {false, true}) {
      Case c{2, 4, 2, queries, 83, 16, 16};
      c.causal = true;
      c.narrow = narrow;
      c.starts = {0, 37};
      cases.push_back(c);
      c.starts = {82, 5};
      c.window = 7;
      cases.push_back(c);
      Case odd{3, 6, 1, queries, 131, 37, 71};
      odd.causal = true;
      odd.narrow = narrow;
      odd.starts = {15, 16, 129};
      cases.push_back(odd);
      odd.softcap = 2.0;
      odd.mask = 1;
      odd.maskBatches = 3;
      cases.push_back(odd);
      odd.mask = 2;
      odd.maskHeads = 6;
      odd.window = 50;
      cases.push_back(odd);
    }
  // Several blocks of keys, of copies.
  Case chunk{1, 2, 1, 300, 1100, 16, 16};
  chunk.causal = chunk.narrow = true;
  chunk.starts = {517};
  cases.push_back(chunk);
  chunk.window = 100;
  cases.push_back(chunk);
  check(cases);
}

// The newest positions alone, wherever in the ring they begin: before its first
// turn, across its end, after many; as few as the queries see, or more.
TEST(Attention, OfARing) {
  std::mt19937 random(11);
  std::vector<Case> cases;
  for (int64_t queries : {1, 3, 8, 9, 40, 300})
    for (int64_t window : {1, 2, 17, 64, 129})
      for (bool narrow : {false, true}) {
        if (queries == 300 && window != 17)
          continue;
        Case c{3, 4, 2, queries, window + queries - 1, 16, 16};
        if (queries == 3) { // no whole vectors
          c.d = 11;
          c.e = 21;
          c.softcap = 2.0;
        }
        c.causal = c.ring = true;
        c.window = window;
        c.narrow = narrow;
        auto anywhere = [&] {
          return static_cast<int32_t>(random() % (5 * c.keys));
        };
        c.starts = {0, anywhere(), anywhere()};
        cases.push_back(c);
        // What few queries are read by is whole groups of keys.
        c.keys = (c.keys + keysTogether - 1) / keysTogether * keysTogether;
        c.starts = {anywhere(), static_cast<int32_t>(c.keys - 1), anywhere()};
        cases.push_back(c);
      }
  check(cases);
}

// Integers and their scales, which are taken no further than the keys that some
// query sees: of whole sequences, of a cache, of a ring.
TEST(Attention, OfIntegers) {
  std::vector<Case> cases;
  for (bool narrow : {false, true}) {
    for (int64_t queries : {1, 2, 8, 9, 40})
      for (int64_t width : {16, 37, 64}) {
        Case c{2, 4, 2, queries, 83, width, width + 5};
        c.causal = c.quantised = true;
        c.narrow = narrow;
        c.starts = {0, 37};
        cases.push_back(c);
        c.softcap = 2.0;
        c.mask = 1;
        cases.push_back(c);
        c.mask = 0;
        c.ring = true;
        c.window = 20;
        c.keys = keysTogether;
        c.starts = {5, 391};
        cases.push_back(c);
      }
    Case whole{1, 4, 2, 131, 131, 48, 80};
    whole.causal = whole.quantised = true;
    whole.narrow = narrow;
    cases.push_back(whole);
  }
  check(cases);
}

// Several texts whose heads lie next to each other at each position: some of
// them, or all, are read together.
TEST(Attention, OfTextsSideBySide) {
  std::vector<Case> cases;
  for (bool quantised : {false, true})
    for (int64_t queries : {1, 3, 8, 40}) {
      Case c{8, 6, 3, queries, 83, 16, 21};
      c.causal = c.sideBySide = true;
      c.quantised = quantised;
      c.starts = {0, 37, 82, 5, 16, 15, 63, 64};
      cases.push_back(c);
      c.window = 20;
      c.softcap = 2.0;
      cases.push_back(c);
      c.narrow = true;
      c.ring = true;
      c.softcap = {};
      c.keys = keysTogether;
      c.starts = {5, 391, 64, 0, 63, 20, 21, 19};
      cases.push_back(c);
      Case odd{5, 4, 4, queries, 131, 37, 16};
      odd.causal = odd.sideBySide = true;
      odd.quantised = quantised;
      odd.starts = {15, 16, 129, 0, 61};
      odd.mask = 1;
      odd.maskBatches = 5;
      odd.maskHeads = 4;
      cases.push_back(odd);
    }
  check(cases);
}

// Biases by distance, with their derivative: odd sizes, several blocks of keys,
// fewer columns than distances; of a cache, of a ring and of integers.
TEST(Attention, BiasesByDistance) {
  std::vector<Case> cases{
      {1, 1, 1, 1, 1, 1, 1},
      {2, 4, 2, 37, 37, 16, 7},
      {1, 2, 1, 70, 131, 48, 80},
  };
  size_t plain = cases.size();
  for (size_t i = 0; i < plain; ++i) {
    Case &c = cases[i];
    c.distances = 2 * std::max(c.queries, c.keys) - 1;
    c.ddistance = true;
    Case other = c;
    other.causal = true;
    other.distances = c.queries;
    cases.push_back(other);
    other.dropout = 0.25;
    other.window = 20;
    other.distances = std::min<int64_t>(other.queries, 20);
    cases.push_back(other);
  }
  Case blocks{2, 2, 1, 523, 523, 8, 8};
  blocks.narrow = blocks.causal = blocks.ddistance = true;
  blocks.distances = 523;
  cases.push_back(blocks);
  blocks.distances = 101; // and nothing further away
  blocks.dmask = true;
  blocks.mask = 1;
  cases.push_back(blocks);
  for (int64_t queries : {1, 8, 40})
    for (bool quantised : {false, true}) {
      Case c{2, 4, 2, queries, 83, 16, 16};
      c.causal = true;
      c.quantised = quantised;
      c.starts = {0, 37};
      c.distances = 83;
      cases.push_back(c);
      c.ring = true;
      c.window = 20;
      c.keys = keysTogether;
      c.starts = {5, 391};
      c.distances = 20;
      cases.push_back(c);
    }
  check(cases);
}

// A token sees the same alone, among the tokens of a guess, and beside other
// texts.
TEST(Attention, AQueryDoesNotDependOnTheOthers) {
  for (StringRef cpu : runnableCpus())
    for (int kind = 0; kind < 4; ++kind) {
      SCOPED_TRACE(cpu.str() + " " + std::to_string(kind));
      Case some{2, 4, 2, 8, 100, 32, 40};
      some.causal = true;
      some.narrow = kind == 1;
      if (kind >= 2)
        some.window = 21;
      some.starts = {61, 12};
      if (kind == 3) {
        some.ring = true;
        some.keys = keysTogether;
        some.starts = {61, 387};
      }
      Case one = some;
      one.batches = one.queries = 1;
      one.starts = {0};
      Kernels kernels(cpu);
      auto emit = [&](const char *name, const Case &c) {
        return emitAttention(kernels.builder, *kernels.module, name,
                             specOf(kernels, c), kernels.target)
            .scratchBytes;
      };
      int64_t scratch = emit("some", some), scratchOfOne = emit("one", one);
      kernels.compile();
      std::mt19937 random(5);
      Reference r(some, random);
      Layout l = layoutOf(some), alone = layoutOf(one);
      Buffer starts(2), start(1);
      std::copy_n(some.starts.data(), 2,
                  reinterpret_cast<int32_t *>(starts.data()));
      Buffer q = stored(some, r.q), k = stored(some, r.k),
             v = stored(some, r.v), out = stored(some, r.out),
             lse(r.lse.size());
      kernels.run("some", {&q, &k, &v, &starts, &out, &lse}, scratch);
      Buffer found = read(some, out, r.out.size());
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t t = 0; t < some.queries; ++t) {
          *reinterpret_cast<int32_t *>(start.data()) = some.starts[b] + t;
          Buffer q1(alone.qSize), k1(alone.kSize), v1(alone.vSize);
          for (int64_t h = 0; h < 4; ++h)
            std::copy_n(&r.q[l.q.at(b, h, t, 0)], some.d,
                        &q1[alone.q.at(0, h, 0, 0)]);
          std::copy_n(&r.k[l.k.at(b, 0, 0, 0)], alone.kSize, k1.data());
          std::copy_n(&r.v[l.v.at(b, 0, 0, 0)], alone.vSize, v1.data());
          Buffer q2 = stored(one, q1), k2 = stored(one, k1),
                 v2 = stored(one, v1), out1 = stored(one, Buffer(4 * some.e)),
                 lse1(4);
          kernels.run("one", {&q2, &k2, &v2, &start, &out1, &lse1},
                      scratchOfOne);
          Buffer own = read(one, out1, 4 * some.e);
          for (int64_t h = 0; h < 4; ++h) {
            ASSERT_EQ(lse1[h], lse[(b * 4 + h) * some.queries + t]);
            for (int64_t i = 0; i < some.e; ++i)
              ASSERT_EQ(own[alone.out.at(0, h, 0, i)],
                        found[l.out.at(b, h, t, i)])
                  << b << " " << h << " " << t << " " << i;
          }
        }
    }
}
