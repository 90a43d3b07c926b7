//===- error.h - what goes wrong, by who can mend it --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_ERROR_H
#define TFM_RUNTIME_SUPPORT_ERROR_H

#include <fmt/core.h>
#include <stdexcept>
#include <string>

namespace tfm {

/// Something went wrong, told in words for whoever runs the program.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
  /// The message of a format and what it asks for. That it cannot throw keeps
  /// the places small that throw it.
  template <typename First, typename... Rest>
  Error(fmt::format_string<First, Rest...> format, First &&first,
        Rest &&...rest) noexcept
      : Error(fmt::make_format_args(first, rest...), format) {}

private:
  Error(fmt::format_args values, fmt::string_view format) noexcept;
};

/// The user's input is at fault: the program prints the message and exits 1.
/// The message names the file (or flag) and says what to do.
class InputError : public Error {
public:
  using Error::Error;
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
class FatalError : public Error {
public:
  using Error::Error;
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
class Interrupted : public Error {
public:
  using Error::Error;
};

// Everything else that is thrown is a bug of the program: it exits 70.

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_ERROR_H
