//===- SchedOps.td - the operations of the sched dialect ----------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_SCHEDULE_SCHEDOPS_TD
#define TFM_SCHEDULE_SCHEDOPS_TD

include "SchedDialect.td"
include "compiler/dialect/TfmInterfaces.td"
include "compiler/dialect/TfmTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Attributes and types
//===----------------------------------------------------------------------===//

class Sched_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tfm::sched";
  let genSpecializedAttr = 0;
}

def Access : Sched_Enum<"Access", "which elements a kernel reads or writes at a point of its domain", [
    I32EnumAttrCase<"Point", 0, "point">,
    I32EnumAttrCase<"Row", 1, "row">,
    I32EnumAttrCase<"Memory", 2, "memory">]> {
  let description = [{
    A kernel visits the points of a domain of rows and columns. It reads or
    writes a tensor at its own `point`, one element per `row`, or anywhere in
    `memory`.
  }];
}
def AccessesAttr : ArrayOfAttr<Sched_Dialect, "Accesses", "accesses", "::tfm::sched::Access">;

def KernelKind : Sched_Enum<"KernelKind", "how a kernel is computed", [
    I32EnumAttrCase<"Row", 0, "row">,
    I32EnumAttrCase<"Matmul", 1, "matmul">,
    I32EnumAttrCase<"Attention", 2, "attention">,
    I32EnumAttrCase<"AttentionBackward", 3, "attention_backward">,
    I32EnumAttrCase<"ScatterAdd", 4, "scatter_add">,
    I32EnumAttrCase<"CacheUpdate", 5, "cache_update">,
    I32EnumAttrCase<"Fold", 6, "fold">,
    I32EnumAttrCase<"TopK", 7, "top_k">]> {
  let description = [{
    `row`: elementwise ops and reductions, row after row. `fold`: adds up the
    partial results of `sched.reduce_chunks`. The others begin with the op of
    their name; a `matmul` may have an epilogue.
  }];
}
def KernelKindAttr : EnumAttr<Sched_Dialect, KernelKind, "kind"> { let assemblyFormat = "$value"; }

def BufferKind : Sched_Enum<"BufferKind", "what a range of the arena holds, and how long", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Gradient", 1, "gradient">,
    I32EnumAttrCase<"State", 2, "state">,
    I32EnumAttrCase<"Cache", 3, "cache">,
    I32EnumAttrCase<"Constant", 4, "constant">,
    I32EnumAttrCase<"Activation", 5, "activation">,
    I32EnumAttrCase<"ParameterCopy", 6, "parameter_copy">]> {
  let description = [{
    Parameters, their copies in a narrower type, gradients, the optimizer's state, the keys and values of
    generation and constants have bytes of their own for good. An activation
    lives in one program, from its first write to its last read.
  }];
}
def BufferKindAttr : EnumAttr<Sched_Dialect, BufferKind, "buffer_kind"> { let assemblyFormat = "$value"; }

def StridedMemRef : Type<
    CPred<"::tfm::sched::isStridedMemRef($_self)">,
    "memref of static shape and strides without an offset", "::mlir::MemRefType">;
def Bytes : Type<
    CPred<"::tfm::sched::isBytes($_self)">, "memref of bytes", "::mlir::MemRefType">;

class Sched_Op<string mnemonic, list<Trait> traits = []> : Op<Sched_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// On tensors
//===----------------------------------------------------------------------===//

def KernelOp : Sched_Op<"kernel", [Pure, AttrSizedOperandSegments, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "the ops that one kernel computes";
  let description = [{
    The ops of the body over a domain of `rows` by `cols` points. The arguments
    of the body are the inputs, then the layer's index where there is one;
    `input_access` and `result_access` say which elements of each the kernel
    reads and writes at a point. What costs nothing (`isFree`) is computed again
    in every kernel that uses it. Ops of the body that are views only rename
    points or rows.

    The first input of a `scatter_add` or `cache_update` is changed in place:
    its buffer is that of the first result.

    `layouts` has the order of axes in which each result lies in memory; empty
    where that is its own.

    Example:

    ```mlir
    %y = sched.kernel row 4 by 8 (%x, %w : tensor<4x8xf32>, tensor<4x8xf32>) [point, point]
        -> (tensor<4x8xf32>) [point] {
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>):
      %s = tfm.mul %a, %b : tensor<4x8xf32>
      %t = tfm.tanh %s : tensor<4x8xf32>
      sched.yield %t : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins KernelKindAttr:$kind, I64Attr:$rows, I64Attr:$cols,
      Variadic<AnyTfmTensor>:$inputs, Optional<Index>:$layer,
      AccessesAttr:$input_access, AccessesAttr:$result_access,
      OptionalAttr<TypedArrayAttrBase<DenseI64ArrayAttr, "orders of axes">>:$layouts);
  let results = (outs Variadic<AnyTfmTensor>:$outs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `` $kind $rows `by` $cols ` ` `(` ($inputs^ `:` type($inputs))? `)` $input_access
    (`layer` $layer^)? `->` `(` type($outs) `)` $result_access (`layouts` $layouts^)? $body attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::Operation *getYield() { return getBlock()->getTerminator(); }
    ::tfm::Domain getDomain() {
      return {static_cast<int64_t>(getRows()), static_cast<int64_t>(getCols())};
    }
    /// Whether the first input's buffer becomes that of the first result.
    bool isInPlace() {
      return getKind() == KernelKind::ScatterAdd || getKind() == KernelKind::CacheUpdate;
    }
    /// The order of axes of a result in memory; empty where that is its own.
    ::llvm::ArrayRef<int64_t> getLayout(unsigned result);
  }];
}

def YieldOp : Sched_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "ends the body of a kernel";
  let description = [{
    Its operands are the results of the kernel.

    Example:

    ```mlir
    sched.yield %y : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyTfmTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ /* nothing to yield */ }]>];
}

def ContiguousOp : Sched_Op<"contiguous", [Pure, SameOperandsAndResultType]> {
  let summary = "a copy, row by row";
  let description = [{
    Writes a tensor to memory of its own: what a `tfm.reshape` needs whose
    elements no strides can walk otherwise.

    Example:

    ```mlir
    %y = sched.contiguous %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def ReduceChunksOp : Sched_Op<"reduce_chunks", [Pure,
    DeclareOpInterfaceMethods<RowKernelOpInterface, ["getDomain", "getReducedAxis"]>]> {
  let summary = "the sum of the rows of each chunk of rows";
  let description = [{
    `y[c, :]` is the sum (with `maximum`: the maximum) of `x[r, :]` over
    `c * rows / chunks <= r < (c + 1) * rows / chunks`: what each thread can add
    up on its own, in an order that does not depend on the threads. A kernel of
    kind `fold` adds up the chunks.

    Example:

    ```mlir
    %y = sched.reduce_chunks %x : tensor<1000x8xf32> to tensor<16x8xf32>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$x, UnitAttr:$maximum);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "(`maximum` $maximum^)? $x attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// In memory
//===----------------------------------------------------------------------===//

def ProgramOp : Sched_Op<"program", [Symbol, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "one function of a model";
  let description = [{
    Launches, copies, fills and loops over layers, in order. Programs run one at
    a time, so that their activations share the same bytes.

    Example:

    ```mlir
    sched.program @forward {
      %x = sched.buffer activation "x" : memref<128xi8>
      %v = sched.view %x at 0 : memref<128xi8> to memref<4x8xf32, strided<[8, 1]>>
      sched.input "x" %v : memref<4x8xf32, strided<[8, 1]>>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
  }];
}

def BufferOp : Sched_Op<"buffer", [DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a range of the arena";
  let description = [{
    An activation stands in the program, or in the loop, that it lives in: one
    in a loop holds nothing from one turn to the next. The others stand in the
    module. `value` is what a constant is filled with when the program starts.
    `sched-plan-memory` sets the `offset` from the arena's start, in bytes, and
    for activations `live`: the first and the last step of the program that they
    live in, counted in launches, copies and fills.

    Example:

    ```mlir
    %x = sched.buffer activation "x" at 4096 live [0, 3] : memref<128xi8>
    ```
  }];
  let arguments = (ins BufferKindAttr:$kind, StrAttr:$name, OptionalAttr<ElementsAttr>:$value,
      OptionalAttr<I64Attr>:$offset, OptionalAttr<DenseI64ArrayAttr>:$live);
  let results = (outs Bytes:$buffer);
  let assemblyFormat = [{
    `` $kind $name (`at` $offset^)? (`live` $live^)? (`value` $value^)? attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Its size in bytes.
    int64_t getBytes() { return getType().getNumElements(); }
    /// What it takes of the arena: where it ends, the next one may begin.
    int64_t getArenaBytes();
  }];
}

def ViewOp : Sched_Op<"view", [Pure, AttrSizedOperandSegments]> {
  let summary = "a strided window on a buffer";
  let description = [{
    Elements of `buffer` from byte `offset` on, which the index of each loop in
    `layers` advances by so many bytes (`steps`). The strides of the type count
    elements, and are relative to that first one. `row` is a number that the
    caller writes before the program runs, or a step before this one; it advances
    the window, too, by `row_step` bytes each.

    Example: the weights of a layer, 64 KiB each; and what a cache of eight
    texts has of one of them in a layer.

    ```mlir
    %w = sched.view %parameters at 1024 layers(%i) by [65536]
        : memref<787456xi8> to memref<128x128xf32, strided<[128, 1]>>
    %k = sched.view %keys at 0 layers(%i) by [8192] row(%r : memref<1xi32, strided<[1]>>) by 1024
        : memref<98304xi8> to memref<1x4x8x8xf32, strided<[256, 64, 8, 1]>>
    ```
  }];
  let arguments = (ins Bytes:$buffer, I64Attr:$offset, Variadic<Index>:$layers,
      DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$steps, Optional<StridedMemRef>:$row,
      OptionalAttr<I64Attr>:$row_step);
  let results = (outs StridedMemRef:$view);
  let assemblyFormat = [{
    $buffer `at` $offset (`layers` `(` $layers^ `)` `by` $steps)?
    (`row` `(` $row^ `:` type($row) `)` `by` $row_step)? attr-dict
    `:` type($buffer) `to` type($view)
  }];
  let hasVerifier = 1;
}

class Sched_PortOp<string mnemonic, string what> : Sched_Op<mnemonic, [HasParent<"ProgramOp">]> {
  let arguments = (ins StrAttr:$name, StridedMemRef:$view);
  let assemblyFormat = "$name $view attr-dict `:` type($view)";
  let summary = "a named " # what # " of a program";
}

def InputOp : Sched_PortOp<"input", "input"> {
  let description = [{
    Where the caller writes an input right before the program runs. Its bytes
    are its own until the last launch that reads them.

    Example:

    ```mlir
    sched.input "tokens" %v : memref<4x8xi32, strided<[8, 1]>>
    ```
  }];
}

def OutputOp : Sched_PortOp<"output", "output"> {
  let description = [{
    Where the caller finds an output right after the program has run.

    Example:

    ```mlir
    sched.output "logits" %v : memref<4x8x50xf32, strided<[400, 50, 1]>>
    ```
  }];
}

def LoopOp : Sched_Op<"loop", [SingleBlock, NoTerminator]> {
  let summary = "a loop over equal layers";
  let description = [{
    Runs its body for layer 0, 1, ... `count - 1`; `reverse`: from the last one
    to the first. The body's argument is the layer.

    Example:

    ```mlir
    sched.loop 12 reverse {
    ^bb0(%i: index):
      %v = sched.view %h at 0 layers(%i) by [128] : memref<1536xi8> to memref<4x8xf32, strided<[8, 1]>>
      sched.fill 0.0 : f32, %v : memref<4x8xf32, strided<[8, 1]>>
    }
    ```
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$reverse);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count (`reverse` $reverse^)? $body attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::Value getLayer() { return getBlock()->getArgument(0); }
  }];
}

def LaunchOp : Sched_Op<"launch", [IsolatedFromAbove, SingleBlock, NoTerminator, AttrSizedOperandSegments]> {
  let summary = "one run of a kernel";
  let description = [{
    A kernel over a domain of `rows` by `cols` points, on views of buffers. The
    arguments of the body are what it reads, what it writes, and the layer's
    index where it is wanted; `access` says which elements of each, reads and
    then writes, the kernel touches at a point. This is the order of the
    arguments of the kernel's code, too. The body reads its arguments with
    `sched.read`, computes in ops of the tfm dialect, and ends with
    `sched.write`. A kernel may write where it reads: in place.

    `rng` is the counter that random numbers are drawn by. `layer` is the loop whose
    index, counted through the loops around it, is the layer. `micro_steps` is
    how many micro-steps that counts to an update. `kernel` is the code that
    computes it, once there is any (`sched-emit-kernels`).

    Example:

    ```mlir
    sched.launch row 4 by 8 reads(%x : memref<4x8xf32, strided<[8, 1]>>)
        writes(%y : memref<4x8xf32, strided<[8, 1]>>) [point, point] {
    ^bb0(%a: memref<4x8xf32, strided<[8, 1]>>, %b: memref<4x8xf32, strided<[8, 1]>>):
      %s = sched.read %a : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
      %t = tfm.tanh %s : tensor<4x8xf32>
      sched.write %t, %b : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
    }
    ```
  }];
  let arguments = (ins KernelKindAttr:$kind, I64Attr:$rows, I64Attr:$cols,
      Variadic<StridedMemRef>:$reads, Variadic<StridedMemRef>:$writes,
      Optional<Index>:$layer, Optional<StridedMemRef>:$rng, AccessesAttr:$access,
      DefaultValuedAttr<I64Attr, "1">:$micro_steps, OptionalAttr<SymbolRefAttr>:$kernel);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `` $kind $rows `by` $cols
    `reads` `(` ($reads^ `:` type($reads))? `)` `writes` `(` ($writes^ `:` type($writes))? `)` $access
    (`layer` $layer^)? (`rng` $rng^ `:` type($rng))? (`micro_steps` $micro_steps^)? (`kernel` $kernel^)? $body attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::tfm::Domain getDomain() {
      return {static_cast<int64_t>(getRows()), static_cast<int64_t>(getCols())};
    }
    /// The arguments of the body for what is read and for what is written.
    ::mlir::Block::BlockArgListType getReadArgs() {
      return getBlock()->getArguments().take_front(getReads().size());
    }
    ::mlir::Block::BlockArgListType getWriteArgs() {
      return getBlock()->getArguments().slice(getReads().size(), getWrites().size());
    }
    /// How the argument of that number is accessed.
    Access getAccessOf(unsigned argument) { return getAccess()[argument]; }
    /// The write of the argument of that number.
    WriteOp getWriteOf(unsigned argument);
    /// The first op of the kernel that computes something and is not free: of
    /// every kind but `row` it is the one that the kind is named after. A row
    /// kernel may have none.
    ::mlir::Operation *getFirstOp();
  }];
}

def ReadOp : Sched_Op<"read", [Pure, HasParent<"LaunchOp">]> {
  let summary = "what a launch reads, as a tensor";
  let description = [{
    The tensor that lies in memory where the argument of the launch says. No
    copy is made: how much of it is loaded when is the kernel's affair.

    Example:

    ```mlir
    %x = sched.read %a : memref<4x8xf32, strided<[8, 1]>> to tensor<4x8xf32>
    ```
  }];
  let arguments = (ins StridedMemRef:$from);
  let results = (outs AnyTfmTensor:$y);
  let assemblyFormat = "$from attr-dict `:` type($from) `to` type($y)";
  let hasVerifier = 1;
}

def WriteOp : Sched_Op<"write", [HasParent<"LaunchOp">]> {
  let summary = "what a launch writes";
  let description = [{
    Stores a tensor where the argument of the launch says.

    Example:

    ```mlir
    sched.write %y, %b : tensor<4x8xf32> to memref<4x8xf32, strided<[8, 1]>>
    ```
  }];
  let arguments = (ins AnyTfmTensor:$value, StridedMemRef:$to);
  let assemblyFormat = "$value `,` $to attr-dict `:` type($value) `to` type($to)";
  let hasVerifier = 1;
}

def CopyOp : Sched_Op<"copy"> {
  let summary = "copies one view to another";
  let description = [{
    What could not be computed where it is wanted is brought there, by the
    `kernel` once there is any.

    Example:

    ```mlir
    sched.copy %x, %y : memref<4x8xf32, strided<[1, 4]>> to memref<4x8xf32, strided<[8, 1]>>
    ```
  }];
  let arguments = (ins StridedMemRef:$from, StridedMemRef:$to, OptionalAttr<SymbolRefAttr>:$kernel);
  let assemblyFormat = "$from `,` $to (`kernel` $kernel^)? attr-dict `:` type($from) `to` type($to)";
  let hasVerifier = 1;
}

def FillOp : Sched_Op<"fill"> {
  let summary = "sets all elements of a view";
  let description = [{
    Every element of the view becomes the `value`, which has their type. The
    `kernel` does it once there is any.

    Example:

    ```mlir
    sched.fill 0.0 : f32, %y : memref<4x8xf32, strided<[8, 1]>>
    ```
  }];
  let arguments = (ins TypedAttrInterface:$value, StridedMemRef:$to, OptionalAttr<SymbolRefAttr>:$kernel);
  let assemblyFormat = "$value `,` $to (`kernel` $kernel^)? attr-dict `:` type($to)";
  let hasVerifier = 1;
}

def GroupOp : Sched_Op<"group", [ParentOneOf<["ProgramOp", "LoopOp"]>, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "launches that one kernel runs";
  let description = [{
    Launches none of which waits for another: one kernel of a device runs them,
    each in blocks of its own, as one step of the program. With `behind_first`
    every block runs the first one for itself, before its share of another: it
    writes a buffer that stands in the group, which is memory of each block, and
    nobody else reads.

    Example: two products of the rows that a norm makes.

    ```mlir
    sched.group behind_first {
      %n = sched.buffer activation "n" : memref<32xi8>
      %v = sched.view %n at 0 : memref<32xi8> to memref<1x8xf32, strided<[8, 1]>>
      sched.launch row 1 by 8 reads(%x : memref<1x8xf32, strided<[8, 1]>>)
          writes(%v : memref<1x8xf32, strided<[8, 1]>>) [point, point] { ... }
      sched.launch matmul 1 by 4 reads(%v, %w : ...) writes(%y : ...) [memory, memory, point] { ... }
      sched.launch matmul 1 by 4 reads(%v, %u : ...) writes(%z : ...) [memory, memory, point] { ... }
    }
    ```
  }];
  let arguments = (ins UnitAttr:$behind_first, OptionalAttr<SymbolRefAttr>:$kernel);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`behind_first` $behind_first^)? (`kernel` $kernel^)? $body attr-dict";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    /// All of them, in order.
    ::llvm::SmallVector<LaunchOp, 4> getLaunches();
    /// What every block runs for itself; null where there is nothing.
    LaunchOp getOwn();
    /// Those in blocks of their own.
    ::llvm::SmallVector<LaunchOp, 4> getShared();
  }];
}

def SerialOp : Sched_Op<"serial", [ParentOneOf<["ProgramOp", "LoopOp"]>, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "small steps that one thread runs";
  let description = [{
    Launches, copies and fills that one thread runs one after the other. Together
    they are one step of the program: no thread waits for another in between,
    which would take longer than the steps do. With `behind_first` threads share
    the first one as they do outside of this op, and whoever is last with it runs
    the others.

    Example:

    ```mlir
    sched.serial {
      sched.fill 0.0 : f32, %x : memref<4x8xf32, strided<[8, 1]>>
      sched.fill 1.0 : f32, %y : memref<4x8xf32, strided<[8, 1]>>
    }
    sched.serial behind_first {
      sched.fill 0.0 : f32, %large : memref<1024x1024xf32, strided<[1024, 1]>>
      sched.fill 1.0 : f32, %y : memref<4x8xf32, strided<[8, 1]>>
    }
    ```
  }];
  let arguments = (ins UnitAttr:$behind_first);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`behind_first` $behind_first^)? $body attr-dict";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    /// The step that threads share, if any.
    ::mlir::Operation *getShared() {
      return getBehindFirst() ? &getBlock()->front() : nullptr;
    }
  }];
}

#endif // TFM_SCHEDULE_SCHEDOPS_TD
