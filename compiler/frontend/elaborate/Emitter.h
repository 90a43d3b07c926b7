//===- Emitter.h - writes the tfm dialect -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_EMITTER_H
#define TFM_FRONTEND_ELABORATE_EMITTER_H

#include "compiler/frontend/elaborate/InstanceTree.h"

namespace mlir {
class MLIRContext;
class ModuleOp;
template <typename OpTy> class OwningOpRef;
} // namespace mlir

namespace tfm {

/// Builds the tfm module for the elaborator, which knows no MLIR. A `Handle` is
/// an SSA value; operands defined outside of the repeat that is being built
/// become `shared` operands of it by themselves.
class Emitter {
public:
  using Handle = void *;
  using Shape = llvm::ArrayRef<int64_t>;

  struct Input {
    std::string name;
    Elem elem;
    Dims dims;
  };

  explicit Emitter(mlir::MLIRContext &context);
  ~Emitter();

  /// Place of the ops that are made next: the module in whose method they stand
  /// (null: none), and a byte of a file. Most places have no ops, so that
  /// paths and lines are looked up when one is made.
  void at(const Node *node, const SourceFile &file, uint32_t offset);

  // Functions.
  std::vector<Handle> beginFunction(llvm::StringRef name,
                                    llvm::ArrayRef<Input> inputs);
  void endFunction(llvm::ArrayRef<Handle> results);
  /// Drops the function that is being built.
  void abandonFunction();

  // Repeats. `key` tells which values of `param` and `perLayer` are stacked.
  std::vector<Handle> beginRepeat(const Node *key, int64_t count,
                                  llvm::ArrayRef<Handle> carried);
  std::vector<Handle> endRepeat(llvm::ArrayRef<Handle> carried);
  /// Drops the repeat that is being built.
  void abandonRepeat();
  bool insideRepeat(const Node *key) const;

  // Leaves.
  Handle param(const Param &param);
  /// `formula` is the constant's right hand side, for reports.
  Handle constant(const Const &constant, llvm::StringRef formula);
  Handle splat(double value, Elem elem, Shape shape);
  /// A number for each iteration of the loop of `key`, as a scalar tensor.
  Handle perLayer(const Node *key, llvm::ArrayRef<double> values, Elem elem);
  Handle iota(int64_t axis, Shape shape);
  Handle positions(Handle tokens);

  // Elementwise. `name` is the op's mnemonic.
  Handle unary(llvm::StringRef name, Handle x);
  Handle binary(llvm::StringRef name, Handle a, Handle b);
  Handle compare(llvm::StringRef kind, Handle a, Handle b);
  Handle select(Handle condition, Handle a, Handle b);
  Handle cast(Handle x, Elem elem);

  // Shapes.
  Handle broadcast(Handle x, Shape shape);
  Handle reshape(Handle x, Shape shape);
  Handle transpose(Handle x, llvm::ArrayRef<int64_t> permutation);
  Handle slice(Handle x, int64_t axis, int64_t start, int64_t size);
  Handle concat(llvm::ArrayRef<Handle> xs, int64_t axis);

  // Reductions and rows.
  Handle reduceSum(Handle x, int64_t axis);
  Handle reduceMax(Handle x, int64_t axis);
  Handle normalize(Handle x, double eps);
  Handle rmsNormalize(Handle x, double eps);

  /// The results of the op with the mnemonic `name`, which infers their types,
  /// and has these integers as attributes.
  using Integers = llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>>;
  std::vector<Handle> op(llvm::StringRef name, llvm::ArrayRef<Handle> operands,
                         Integers attributes);

  // The rest.
  Handle matmul(Handle a, Handle b);
  Handle gather(Handle table, Handle ids);
  struct Attention {
    Handle q, k, v, mask = nullptr, distanceBias = nullptr;
    bool causal = false;
    double scale = 1;
    std::optional<int64_t> window;
    std::optional<double> softcap;
    double dropout = 0;
    int64_t site = 0;
  };
  Handle attention(const Attention &options);
  struct Rope {
    Handle x, positions;
    double base = 10000;
    int64_t dims = 0;
    bool interleaved = false;
    /// In place of those that the base gives; empty without.
    std::vector<double> frequencies;
    std::optional<double> amplitude;
  };
  Handle rope(const Rope &options);
  Handle dropout(Handle x, double rate, int64_t site);
  Handle uniform(Shape shape, int64_t site);
  Handle crossEntropy(Handle logits, Handle targets,
                      std::optional<int64_t> ignore, double smoothing);

  /// The least and the greatest id with which a `gather` of a finished function
  /// chooses rows, where they are not all in its table; nothing where they are,
  /// or where whoever fills the inputs answers for them.
  std::optional<std::pair<int64_t, int64_t>> idsOutside(Handle gathered);
  /// Whether an id of the input `given` may choose a row of such a `gather`,
  /// and `id`, which is none of a token, one that is not in its table.
  bool looksUp(Handle gathered, Handle given, int64_t id);
  /// How many token ids all tables and losses of the finished functions have
  /// rows for. `least` becomes the result of one that has no more, or null.
  int64_t countTokens(Handle &least);

  /// Says that the user calls this value `name`; the first name stays.
  void nameValue(Handle value, llvm::StringRef path, llvm::StringRef name,
                 llvm::ArrayRef<Dim> dims, unsigned line);
  /// From here on the weights of `repeat` are those of one turn of its loop,
  /// until `endLayer`.
  void beginLayer(const Node *repeat, int64_t turn);
  void endLayer(const Node *repeat);
  /// What a value is to the method of the module at `path`.
  enum class Role { Argument, Local, Result };
  /// Adds a line to the function's list of shapes, unless it stands there: a
  /// module may be called more than once.
  void listShape(Role role, llvm::StringRef path, llvm::StringRef name,
                 llvm::ArrayRef<Dim> dims, llvm::StringRef file, unsigned line);

  // The module.
  void declareParam(const Param &param);
  void setModel(llvm::StringRef name, llvm::StringRef source,
                llvm::StringRef recipe);
  /// What the user calls the axes of each result of the model.
  void setResults(llvm::ArrayRef<Dims> shapes);
  void addHyperparameter(llvm::StringRef name, const SymbolicValue &value);
  void addModule(const Node &node, llvm::StringRef file, unsigned line);
  /// Hands over the module, once it passes MLIR's verifier; otherwise the
  /// verifier's messages are in `problem` and the result is null.
  mlir::OwningOpRef<mlir::ModuleOp> finish(std::string &problem);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_EMITTER_H
