//===- WriteCsv.cpp - a report for spreadsheets ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/Writers.h"

#include "llvm/ADT/StringExtras.h"

using namespace tfm;

/// A field as RFC 4180 has it: quoted where it holds a comma, a quote or a line
/// break.
static std::string field(llvm::StringRef text) {
  if (text.find_first_of(",\"\r\n") == llvm::StringRef::npos)
    return text.str();
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"')
      quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

static std::string joined(llvm::ArrayRef<int64_t> shape) {
  std::vector<std::string> words;
  for (int64_t size : shape)
    words.push_back(std::to_string(size));
  return llvm::join(words, " x ");
}

void tfm::writeCsv(const ModelReport &report, const ReportView &view,
                   llvm::raw_ostream &os) {
  if (view.tensors) {
    os << "name,shape,dims,dtype,parameters,formula,trainable\n";
    for (const TensorReport &tensor : report.tensors)
      os << field(tensor.name) << ',' << joined(tensor.shape) << ','
         << field(llvm::join(tensor.dims, " x ")) << ',' << tensor.dtype << ','
         << tensor.parameters << ',' << field(tensor.formula) << ','
         << (tensor.trainable ? "true" : "false") << '\n';
    return;
  }
  if (view.shapes) {
    os << "path,value,shape,dims,line,role,file\n";
    for (const ValueReport &value : report.values)
      os << field(value.path) << ',' << field(value.name) << ','
         << joined(value.shape) << ',' << field(llvm::join(value.dims, " x "))
         << ',' << value.line << ',' << value.role << ',' << field(value.file)
         << '\n';
    return;
  }
  os << "path,module,count,parameters,formula\n";
  for (const ModuleReport &member : report.modules) {
    if (view.depth && member.depth > *view.depth)
      continue;
    os << field(member.path) << ',' << field(member.module) << ','
       << member.instances * std::max<int64_t>(member.count, 1) << ','
       << member.totalParameters << ',' << field(member.totalFormula) << '\n';
  }
}
