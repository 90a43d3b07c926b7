//===- Elaborator.h - instances of modules and their shapes -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_ELABORATOR_H
#define TFM_FRONTEND_ELABORATE_ELABORATOR_H

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/elaborate/Emitter.h"
#include "compiler/frontend/recipe/Tokenizers.h"
#include "compiler/frontend/syntax/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <deque>
#include <map>

namespace tfm {

/// Tensors with more elements, thousands of terabytes, are a mistake: with
/// less, bytes and operations of whole models can still be counted in 64 bits.
inline constexpr double maxElements = 2.5e14;

/// Tensors with more axes are a mistake, too: a `gather` of itself doubles
/// them.
inline constexpr size_t maxRank = 64;

/// What elaborating may cost (`spend`): half a second. Models take some
/// thousands of steps.
inline constexpr size_t maxSteps = size_t{1} << 21;

/// A constant has no more elements, and all of a model together, with those of
/// all layers.
inline constexpr size_t maxConstElements = 300'000'000;
inline constexpr size_t maxAllConstElements = 1'000'000'000;
/// What computing constants may cost where they are only checked: a step is one
/// operation for one element.
inline constexpr size_t maxConstSteps = size_t{1} << 26;

/// How long a sequence is where nothing says it.
inline constexpr int64_t defaultLength = 16;

/// Where an expression stands: what its names mean.
struct Env {
  const Unit *unit = nullptr;
  /// The instance whose body or method this is.
  Node *self = nullptr;
  /// Arguments and variables of a method.
  llvm::StringMap<Value> locals;
  /// Dimensions bound by the caller (`B`, `T`).
  llvm::StringMap<Dim> dims;
  /// What `..` stands for.
  std::optional<Dims> ellipsis;
  /// Hyperparameters that are being bound (while an instance is made).
  const llvm::MapVector<llvm::StringRef, Value> *binding = nullptr;
  /// The path that an instance made now gets, relative to `parent`.
  std::string pending = {};
  /// The node below which instances are made; null: `self`.
  Node *parent = nullptr;
  /// Whether this is the body of a method: no instances are made here.
  bool inMethod = false;
  /// Whether this is a dimension in a signature.
  bool inSignature = false;
  /// The method and where it was called, for notes on its signature.
  std::string where = {};
  Range call = {};
};

/// An evaluated argument of a call.
struct CallArg {
  llvm::StringRef name;
  Range nameRange;
  Range range;
  Value value;
  const ast::Expr *expr = nullptr;
};

/// What an entry takes, which decides how an override of it is read: shells eat
/// quotes, so that a text comes without them. `Texts` may also be a list in
/// brackets, `TextOrId` an integer.
enum class Wanted { Value, Text, Texts, TextOrId };

/// The files of a compilation as they were read, and what it may still cost.
/// Who checks the modules of a file one by one reads and counts once.
struct Program {
  std::vector<std::unique_ptr<Unit>> units;
  std::vector<Unit *> stdUnits;
  bool stdLoaded = false;
  Unit *mainUnit = nullptr;
  std::deque<Const> consts;
  size_t stepsLeft = maxSteps;
  /// Of elements of constants, and of steps to compute those that are only
  /// checked.
  size_t constElementsLeft = maxAllConstElements;
  size_t constStepsLeft = maxConstSteps;
};

/// Evaluates the model of a file: instantiates modules, checks and infers
/// shapes, and drives the emitter. Errors yield poison, which stays silent, so
/// that one mistake is reported once.
class Elaborator {
public:
  Elaborator(SourceManager &sources, Diagnostics &diags,
             const FrontendOptions &options, Emitter &emitter,
             Program &program);
  /// Elaborates and emits everything. False after errors.
  bool run(uint32_t mainFile, llvm::StringRef path);
  /// Checks one module of a file without a model as if it were the model (its
  /// hyperparameters have values, from defaults or `-D`), or one function, of
  /// inputs as a model would have them. Under the empty name what the file
  /// imports and its constants.
  void check(uint32_t mainFile, llvm::StringRef path, llvm::StringRef name);

private:
  friend class BuiltinCall;
  friend class ConstCompiler;
  friend class RecipeBuilder;

  // Units.cpp: files, imports, std, -D.
  /// Reads the main file, what it imports and the overrides. False after
  /// errors.
  bool readSources(uint32_t mainFile, llvm::StringRef path);
  Unit *addUnit(uint32_t file, llvm::StringRef path);
  void declare(Unit &unit);
  void resolveImports(Unit &unit, std::vector<const Unit *> &open);
  void loadStd();
  void parseDefines();
  struct Define {
    std::string key;
    std::string text;
    /// Null where the text is no expression: `problems` tell why.
    ast::Expr *value = nullptr;
    std::unique_ptr<Diagnostics> problems;
    Range range;
    bool used = false;
  };
  Define *findDefine(llvm::StringRef key);
  /// The expression of an override that something uses as `wanted`; null after
  /// its errors. A text is taken as it stands, but for one that begins with a
  /// quote, and for `none`.
  const ast::Expr *useDefine(Define &define, Wanted wanted);
  /// The entries that a block or a form of it has, by its path (`train`,
  /// `train.optimizer`): what `-D` may set.
  std::map<std::string, std::vector<std::string>> recipeEntries;
  void reportUnusedDefines();
  const ast::Block *block(llvm::StringRef keyword) const;

  // Model.cpp: the root, functions, parameters.
  bool instantiateModel();
  void emitFunctions();
  bool emitFunction(const FunctionRequest &request);
  void checkFunction(const ast::Method &function);
  /// The inputs of the function that is being emitted that a method takes.
  static std::vector<CallArg> inputsOf(const ast::Method &method,
                                       llvm::ArrayRef<Emitter::Argument> inputs,
                                       llvm::ArrayRef<Emitter::Handle> handles);
  /// Warns where samples are wanted of a model that looks ahead: until a text
  /// fills the context nothing can be said of its next token.
  void warnAboutLookingAhead();
  /// Whether a recipe with `data` can fill the inputs of a training step, takes
  /// its losses, and has logits for all tokens; E0221 if not.
  bool dataFills(const ast::Method &entry,
                 llvm::ArrayRef<Emitter::Argument> inputs);
  bool isLossPerTarget(const Tensor &losses, const ast::Method &loss);
  // Lookups.cpp.
  struct Lookup;
  /// Reports ids that choose rows outside of a table, of the lookups from
  /// `first` on. Their function is finished.
  void checkGathers(size_t first);
  /// The same for those that the tokenizer's tokens would choose, in all
  /// functions.
  void checkTokens();
  void warnAboutTable(const Lookup &least, int64_t count);
  bool tokensFit(const Tensor &logits, const ast::Method &forward);
  /// Shapes of a method's arguments with the caller's dimensions bound.
  bool argumentShapes(const ast::Method &method,
                      std::vector<Emitter::Argument> &out);
  std::optional<Dims> evalDims(const ast::TypeExpr &type,
                               const llvm::Twine &what);
  Dim callerDim(llvm::StringRef name);
  /// The model's hyperparameter `context`; 0 without one.
  int64_t contextLength() const;
  /// How many tokens `forward` takes while generating.
  int64_t generationLength() const;
  Value lossOf(const Tensor &output, const Tensor &targets);
  void declareTree(const Node &node);

  // Unused.cpp.
  /// Warns of names that nothing reads and of parameters that no function
  /// reads.
  void warnAboutUnused();
  /// The names alone, which need no instances: values that a method computes in
  /// vain, hyperparameters, constants, imports.
  void warnAboutUnusedNames();
  /// Of one module; `outside` are names of members that are read anywhere.
  void warnAboutUnusedNames(const ast::Module &module,
                            const llvm::StringSet<> &outside);
  /// Of a file: its constants and imports.
  void warnAboutUnusedItems(const Unit &unit);
  void warnAboutUnusedValues(const ast::Method &method);
  void warnAboutUnusedParameters();

  // Instantiate.cpp.
  Value instantiate(const ast::Module &decl, const Unit *unit,
                    std::vector<CallArg> &args, Range range, Env &caller);
  /// Reports the modules of `frames` that contain themselves.
  void reportEndless();
  bool bindHyperparameters(const ast::Module &decl, const Unit *unit,
                           std::vector<CallArg> &args, Range range, Node &node,
                           bool isRoot, std::vector<CallArg> &ties);
  /// `width` of `M` takes an integer, not what was `found`.
  Diagnostic &wrongHyperparameter(const ast::Parameter &parameter,
                                  const Value &defaultValue, Range range,
                                  const ast::Module &decl,
                                  const llvm::Twine &found);
  /// Reports a word of the command line that has no meaning where a number is
  /// wanted; whether it did.
  bool reportWord(const ast::Expr &expr, const ast::Parameter &parameter,
                  const Value &defaultValue, const ast::Module &decl,
                  const Env &env);
  bool isUnknownWord(const ast::Expr &expr, const Env &env);
  Value checkHyperparameter(const ast::Parameter &parameter, Value value,
                            const Value &defaultValue, Range range,
                            const ast::Module &decl);
  void elaborateBody(Node &node, std::vector<CallArg> &ties);
  void elaborateMember(Node &node, const ast::Member &member, Env &env,
                       std::vector<CallArg> &ties);
  void declareParamMember(Node &node, const ast::Member &member, Env &env,
                          std::vector<CallArg> &ties);
  void declareConst(Const &constant, const ast::Member &member, Env &env);
  Value evalInit(const Value &value, Range range);
  void bindMember(Node &node, llvm::StringRef name, const Value &value);
  /// Gives the parameters below `shared` the further name `at`.`name`.
  void addAliases(const Node &shared, const Node &at, llvm::StringRef name);
  bool checkRequire(const ast::Expr *condition, const ast::Expr *message,
                    Env &env);

  // Repeat.cpp.
  Value evalRepeat(const ast::Expr &expr, Env &env);

  // Methods.cpp: calls of forward and functions, statements.
  Value callNode(Node &node, std::vector<CallArg> &args, Range range, Env &env);
  Value callMethod(Node *node, const ast::Method &method, const Unit *unit,
                   std::vector<CallArg> &args, Range range);
  Value callRepeat(Node &node, std::vector<CallArg> &args, Range range,
                   Env &env);
  Value runBody(const ast::Method &method, Env &env, llvm::StringRef where);
  void assign(const ast::Stmt &stmt, Env &env);
  void storeLocal(const ast::Target &target, Value value, Env &env);
  /// Adds what a method returns to the function's list of shapes.
  void listResults(const Value &value, const Env &env, unsigned line);
  bool checkShape(const Tensor &tensor, const ast::TypeExpr &type, Env &env,
                  Range range, llvm::function_ref<std::string()> what,
                  ErrorCode code, bool bindDims);
  Value checkArgument(const ast::Parameter &parameter, Value value, Env &env,
                      Range range, llvm::StringRef callee);
  Value checkResult(Value value, const ast::Method &method, Env &env,
                    Range range, llvm::StringRef where);
  static const ast::Method *findMethod(const Node &node, llvm::StringRef name);

  // Eval.cpp: expressions.
  /// The value of an expression. A tensor that it computes fits in any memory.
  Value eval(const ast::Expr &expr, Env &env);
  Value evalKind(const ast::Expr &expr, Env &env);
  /// Takes `steps` off what elaborating may cost in all, so that it ends
  /// whatever a file says: every expression that is evaluated is a step or
  /// more, and so is every value of a list, layer and formula that is visited.
  /// False, after one error (E0512), where none are left, and where no further
  /// error would be kept: then `eval` is poison at once, nothing is called and
  /// no instance is made.
  bool spend(size_t steps, Range range);
  Value evalName(const ast::Expr &expr, Env &env);
  /// The meaning of a name, or nothing.
  std::optional<Value> lookup(llvm::StringRef name, const Env &env);
  /// What the module and its method declare, and everything that has a name.
  static std::vector<std::string> namesOfModule(const Env &env);
  std::vector<std::string> namesInScope(const Env &env);
  Value evalMember(const ast::Expr &expr, Env &env);
  Value evalCall(const ast::Expr &expr, Env &env);
  Value evalIndex(const ast::Expr &expr, Env &env);
  Value evalIf(const ast::Expr &expr, Env &env);
  std::optional<bool> evalCondition(const ast::Expr &expr, Env &env,
                                    llvm::StringRef what);
  std::vector<CallArg> evalArguments(const ast::Expr &call, Env &env);

  // Arithmetic.cpp: operators.
  Value evalUnary(const ast::Expr &expr, Env &env);
  Value evalBinary(const ast::Expr &expr, Env &env);
  Value evalLogic(const ast::Expr &expr, Env &env);
  Value arithmetic(llvm::StringRef op, const Value &a, const Value &b,
                   const ast::Expr &expr);
  /// A float; reports E0413 where it is infinite or no number.
  Value finite(double number, llvm::StringRef what, Range range);
  Value perLayerArithmetic(llvm::StringRef op, const Value &a, const Value &b,
                           const ast::Expr &expr);
  Value tensorArithmetic(llvm::StringRef op, const Value &a, const Value &b,
                         const ast::Expr &expr);
  Value matmul(const Value &a, const Value &b, const ast::Expr &expr);

  // Dimensions.cpp: what may be the size of an axis.
  /// The size of an axis: an integer of at least 1. Reports E0213, E0602 or
  /// E0704 of what `subject` names (`a dimension of `weight``), with the
  /// hyperparameters that are to blame and where they were set; each of these
  /// once.
  std::optional<Dim> toDimension(const Value &value, Range range,
                                 const llvm::Twine &subject);
  /// The hyperparameter `context` is a dimension (`T`) also of a model that has
  /// no table with so many rows.
  void checkContext();
  /// Whether a tensor fits in any memory; reports E0218.
  bool isStorable(llvm::ArrayRef<Dim> dims, Range range,
                  const llvm::Twine &what);
  /// Whether no error has been about this value yet, where it is a
  /// hyperparameter of the model: a wrong one shows in many places.
  bool isFirstBlame(const Value &value);
  /// Says of the model's hyperparameters that a number is made of, and of the
  /// caller's dimensions in it, where they were set.
  void noteOrigins(Diagnostic &d, const Value &value);
  /// "set by `-D width=8`", or "set in" and the place.
  std::string originOf(llvm::StringRef hyperparameter) const;

  // Tensors.cpp: tensor helpers.
  /// Reads a value as a tensor, or reports that it is none.
  std::optional<Tensor> toTensor(const Value &value, Range range,
                                 llvm::StringRef what);
  Tensor broadcastTo(const Tensor &tensor, const Dims &dims);
  /// Whether an axis may be repeated: it is 1, and not just a batch of 1.
  bool isOne(const Dim &dim) const;
  std::optional<Dims> broadcastDims(const Dims &a, const Dims &b);
  /// Makes a scalar or per-layer number a tensor of the other's element type.
  std::optional<Tensor> operandTensor(const Value &value, const Tensor *other,
                                      Range range, llvm::StringRef verb);
  Tensor splat(double value, Elem elem, const Dims &dims);
  /// Whether an integer fits in those of tensors; reports E0413.
  bool isTensorInteger(int64_t value, Range range);
  Tensor transposeAxes(const Tensor &tensor, llvm::ArrayRef<int64_t> order);
  Tensor reshapeTo(const Tensor &tensor, const Dims &dims);
  Tensor binary(llvm::StringRef op, const Tensor &a, const Tensor &b);
  Tensor reduceSum(const Tensor &x, int64_t axis);
  std::optional<int64_t> toAxis(const Value *value, const ast::Expr *expr,
                                const Tensor &tensor, Range range);

  // Builtins*.cpp.
  Value callBuiltin(llvm::StringRef name, std::vector<CallArg> &args,
                    Range range, Env &env);
  bool isBuiltin(llvm::StringRef name) const;
  static std::vector<std::string> builtinNames();

  // Consts.cpp.
  /// Looks for mistakes in the formula, without computing it.
  void checkConst(Const &constant);
  bool evaluateConst(Const &constant);

  // Diagnostics.
  Diagnostic &error(ErrorCode code, Range range, const llvm::Twine &message);
  void suggest(Diagnostic &d, llvm::StringRef name,
               llvm::ArrayRef<std::string> candidates);
  /// Of a float where an integer is needed: how the integer is written.
  static void suggestInteger(Diagnostic &d, const Value &value);
  void locate(Range range);
  std::string place(Range range) const;
  /// Binds evaluated arguments to the names of parameters; reports E0401,
  /// E0402, E0403, E0414. Result: per parameter the argument, or null.
  std::optional<std::vector<CallArg *>>
  bindArguments(llvm::ArrayRef<llvm::StringRef> names,
                llvm::ArrayRef<bool> required, std::vector<CallArg> &args,
                Range range, llvm::StringRef callee,
                llvm::ArrayRef<llvm::StringRef> furtherNames = {});

  SourceManager &sources;
  Diagnostics &diags;
  const FrontendOptions &options;
  Emitter &emitter;

  Program &program;
  ast::File defineTrees;
  std::vector<Define> defines;
  /// Texts of overrides in the quotes that they came without.
  std::deque<std::string> quotedDefines;

  std::deque<Node> nodes;
  std::deque<Param> params;
  Node *root = nullptr;
  /// The model's declaration, while its instance is being made.
  const ast::Module *rootDecl = nullptr;
  std::optional<TokenizerInfo> tokenizer;
  bool tokenizerTried = false;
  const TokenizerInfo *resolveTokenizer(Range range);
  void reportNoTokenizer(Range range);

  /// "SelfAttention.forward" and the instance, innermost last; for notes.
  struct Frame {
    std::string what;
    Node *node;
    Range call;
  };
  std::vector<Frame> frames;
  /// Of a place inside of std the call outside of it that led there, else null.
  const Frame *callerOfStd(Range range) const;
  bool isInStd(uint32_t file) const;
  /// Every `gather` and `cross_entropy` of the functions that are emitted, and
  /// how it was reached.
  struct Lookup {
    Emitter::Handle result;
    /// Of a `gather` what the user calls its table, else empty.
    std::string table;
    /// Or logits for a target.
    Dim rows;
    Range ids;
    std::vector<Frame> frames;
  };
  std::vector<Lookup> lookups;
  void addLookup(Emitter::Handle result, std::string table, const Dim &rows,
                 Range ids);
  /// The place of a lookup in the user's own files, with `frames` as they are
  /// there.
  Range placeOf(const Lookup &lookup, std::vector<Frame> &at) const;
  Diagnostic &lookupError(ErrorCode code, const Lookup &lookup,
                          const llvm::Twine &message);
  /// `the table `p` has context = 16 rows`.
  static std::string rowsOf(const Lookup &lookup);
  /// What to write where token ids choose rows of a table that has too few.
  std::string helpWithTable(const Lookup &lookup) const;
  /// Errors inside of std by code and the place outside that led there.
  std::set<std::tuple<ErrorCode, uint32_t, uint32_t>> stdErrors;
  /// Hyperparameters of the model that errors have been about, as they were.
  std::map<std::string, Value> blamed;
  /// Where the hyperparameters of the model were set.
  std::map<std::string, Range> origins;
  /// Whether dropout is emitted.
  bool training = false;
  int64_t nextSite = 0;
  unsigned instanceDepth = 0;
  unsigned evalDepth = 0;
  /// The member that is evaluated, if its name alone would be known.
  const ast::Expr *prefixed = nullptr;
  /// Whether modules contain or functions call themselves: no more instances
  /// are made, and nothing is called.
  bool endless = false;
  /// The dimensions `B`, `T`, ... of the function that is being emitted.
  llvm::StringMap<Dim> rootDims;
  /// Where those of them come from that are not given on the command line.
  std::map<std::string, std::string> dimOrigins;
  /// The recipe: filled by `RecipeBuilder`.
  llvm::json::Object recipe;
  struct Training {
    bool present = false;
    int64_t batch = 1;
    int64_t sequence = 0;
    Range lossRange;
    std::string lossKind = "cross_entropy";
    std::optional<int64_t> ignore;
    double labelSmoothing = 0;
    llvm::StringMap<int64_t> dims;
    /// Where `sample` stands, if it does, and its prompt.
    std::optional<Range> sampleRange;
    std::string samplePrompt;
  } train;
  /// A call of `attention` in `forward` by which every position sees all others
  /// of the model's sequence, outside of std.
  std::optional<Range> looksAhead;
  /// What is being emitted: the values of `B` and `T`.
  int64_t batch = 1;
  int64_t sequence = defaultLength;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_ELABORATOR_H
