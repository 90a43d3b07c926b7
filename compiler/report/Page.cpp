//===- Page.cpp - pages for a browser -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Page.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace tfm;

std::string tfm::nameOnPage(llvm::StringRef path, unsigned parts) {
  if (!llvm::sys::path::is_absolute(path))
    return path.str();
  // There is one before the first part.
  size_t slash = path.size();
  for (; parts > 0 && slash > 0; --parts)
    slash = path.take_front(slash).rfind('/');
  return path.drop_front(slash + 1).str();
}

void tfm::writePage(llvm::StringRef title, llvm::StringRef script,
                    llvm::StringRef json, llvm::raw_ostream &os) {
  auto put = [&](llvm::StringRef mark) {
    if (mark == "title")
      llvm::printHTMLEscaped(title, os);
    else if (mark == "style")
      os << pageFile("page.css");
    else if (mark == "shared")
      os << pageFile("page.js");
    else if (mark == "script")
      os << pageFile(script);
    else
      // Within JSON `<` stands in strings only; `</script>` must not occur.
      for (char c : json)
        if (c == '<')
          os << "\\u003c";
        else
          os << c;
  };
  llvm::StringRef text = pageFile("page.html");
  for (;;) {
    size_t begin = text.find("{{"), end = text.find("}}", begin);
    os << text.take_front(begin);
    if (end == llvm::StringRef::npos)
      return;
    put(text.slice(begin + 2, end));
    text = text.drop_front(end + 2);
  }
}
