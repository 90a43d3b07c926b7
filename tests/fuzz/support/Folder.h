//===- Folder.h - a folder that inputs are written to -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_SUPPORT_FOLDER_H
#define TFM_TESTS_FUZZ_SUPPORT_FOLDER_H

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <unistd.h>

namespace tfm::fuzz {

/// A folder of this process, in memory where the system has such a place.
class Folder {
public:
  Folder() {
    std::string name = std::filesystem::exists("/dev/shm")
                           ? "/dev/shm/tfm-fuzz-XXXXXX"
                           : "/tmp/tfm-fuzz-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

  void clear() const {
    for (const auto &entry : std::filesystem::directory_iterator(path))
      std::filesystem::remove_all(entry);
  }
  void write(const std::string &name, std::string_view bytes) const {
    int file =
        open((path + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) !=
                        static_cast<ssize_t>(bytes.size()))
      std::abort();
    close(file);
  }

  std::string path;
};

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_SUPPORT_FOLDER_H
