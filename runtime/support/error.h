//===- error.h - what goes wrong, by who can mend it --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_ERROR_H
#define TFM_RUNTIME_SUPPORT_ERROR_H

#include <stdexcept>
#include <string>

namespace tfm {

/// The user's input is at fault: the program prints the message and exits 1.
/// The message names the file (or flag) and says what to do.
class InputError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A file is whole, but of a form that nothing here reads: one of another form
/// beside it may do.
class NotSupported : public InputError {
public:
  using InputError::InputError;
};

/// A text has a part that the tokenizer has no token for. Who knows where the
/// text is from says what to do.
class NoToken : public InputError {
public:
  using InputError::InputError;
};

/// Another process is training in a folder. Who chose its name takes another.
class FolderInUse : public InputError {
public:
  using InputError::InputError;
};

/// Nothing goes on after it, wherever it happens, so nobody who does without
/// some input catches it: the program prints the message and exits 1.
class FatalError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A device, or its driver, does not go on: what was there is lost.
class DeviceError : public FatalError {
public:
  using FatalError::FatalError;
};

/// The same in all processes of a job, at the same moment: the first one tells
/// it.
class AgreedError : public FatalError {
public:
  using FatalError::FatalError;
};

/// Messages between processes fail, or do not come: nothing goes on without
/// them.
class LostProcess : public FatalError {
public:
  using FatalError::FatalError;
};

/// Ctrl-C: everything worth keeping has been written; the program exits 130.
class Interrupted : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// Everything else that is thrown is a bug of the program: it exits 70.

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_ERROR_H
