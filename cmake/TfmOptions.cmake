# Flags that hold for all of our own code: warnings are errors, a fast linker,
# a compiler cache where there is one.

option(TFM_SANITIZE "Address and undefined-behaviour sanitizers" OFF)

find_program(TFM_CCACHE ccache)
if(TFM_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${TFM_CCACHE})
  # Else it would not cache what uses precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TFM_CCACHE})
endif()

# -O2: the programs' speed is in LLVM's archives and in the code they emit.
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
add_compile_options(-Wall -Wextra -Werror -ffunction-sections -fdata-sections)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_link_options(-fuse-ld=lld)
endif()
# LLVM names libraries (z3) that nothing here calls.
add_link_options(-Wl,--gc-sections -Wl,--as-needed)

if(TFM_SANITIZE)
  # What is undefined ends a program, too: a test would pass with its message.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# tfm_precompile_headers(<target> <header>...): parses headers once for a target.
# An upgraded system's are newer than a build but carry older dates, by which
# nothing is built again: what dates they had is no reason to refuse them.
function(tfm_precompile_headers target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()
