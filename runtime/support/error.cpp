//===- error.cpp - what goes wrong, by who can mend it --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/error.h"

#include <fmt/format.h>

namespace tfm {

Error::Error(fmt::format_args values, fmt::string_view format) noexcept
    : std::runtime_error(fmt::vformat(format, values)) {}

} // namespace tfm
