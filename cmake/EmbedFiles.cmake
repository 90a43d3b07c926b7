# cmake -DFILES=a;b -DOUT=x.cpp -P EmbedFiles.cmake: writes the files into a
# C++ source that defines tfm::embeddedFile.
set(table "")
set(names "")
set(pairs "")
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME)
  list(APPEND pairs "${name}|${path}")
endforeach()
list(SORT pairs)
foreach(pair IN LISTS pairs)
  string(REGEX REPLACE "\\|.*" "" name "${pair}")
  string(REGEX REPLACE "^[^|]*\\|" "" path "${pair}")
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER "data_${name}" identifier)
  string(APPEND table "static const unsigned char ${identifier}[] = {${bytes} 0};\n")
  string(APPEND names "    {\"${name}\", ${identifier}, sizeof(${identifier}) - 1},\n")
  string(APPEND list "    \"${name}\",\n")
endforeach()
file(WRITE ${OUT} "// Generated from compiler/std and compiler/frontend/errors.
#include \"compiler/frontend/Embedded.h\"
${table}
namespace {
struct Entry {
  const char *name;
  const unsigned char *data;
  unsigned long size;
};
const Entry entries[] = {
${names}    {nullptr, nullptr, 0}};
const llvm::StringRef names[] = {
${list}    \"\"};
} // namespace
llvm::StringRef tfm::embeddedFile(llvm::StringRef name) {
  for (const Entry *entry = entries; entry->name; ++entry)
    if (name == entry->name)
      return {reinterpret_cast<const char *>(entry->data), entry->size};
  return {};
}
llvm::ArrayRef<llvm::StringRef> tfm::embeddedFileNames() {
  return llvm::ArrayRef(names).drop_back();
}
")
