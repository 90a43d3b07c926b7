# Finds the distribution's LLVM and MLIR, and links them statically: loading the
# shared libLLVM and libMLIR costs 20 to 30 ms at every start.

# Tests name MLIR's archives too, from another folder.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(tfm_llvm_headers INTERFACE)
target_include_directories(tfm_llvm_headers SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(tfm_llvm_headers INTERFACE ${llvm_definitions})

# The exported MLIR archives name the shared library `LLVM` in their link
# interface; take it out, so that each of our programs names the component
# archives that it needs.
file(STRINGS ${MLIR_CMAKE_DIR}/MLIRTargets.cmake mlir_exported REGEX "^add_library\\(MLIR")
foreach(line IN LISTS mlir_exported)
  string(REGEX REPLACE "^add_library\\(([A-Za-z0-9_]+) .*" "\\1" target "${line}")
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  if(links)
    list(REMOVE_ITEM links LLVM "$<LINK_ONLY:LLVM>")
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
  endif()
endforeach()

llvm_map_components_to_libnames(TFM_LLVM_CORE core support)
llvm_map_components_to_libnames(TFM_LLVM_CODEGEN
  core support passes linker target orcjit
  x86codegen x86asmparser x86desc x86info aarch64codegen aarch64asmparser aarch64desc aarch64info)

# tfm_tablegen(<td file> <output> <mlir-tblgen arguments>...): runs mlir-tblgen
# into the build tree's mirror of the current folder.
function(tfm_tablegen td output)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(${output} ${ARGN} EXTRA_INCLUDES ${MLIR_INCLUDE_DIRS} ${CMAKE_SOURCE_DIR})
  set(TABLEGEN_OUTPUT ${TABLEGEN_OUTPUT} PARENT_SCOPE)
endfunction()

# tfm_precompile([KERNELS] <target>...): has what nearly every file that sees MLIR
# includes parsed once for all of these targets: two thirds of the time of most
# files. KERNELS: with the dialects that kernels are emitted in.
# `-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON` leaves it out.
function(tfm_precompile)
  cmake_parse_arguments(arg "KERNELS" "" "" ${ARGN})
  set(owner tfm_dialect)
  if(arg_KERNELS)
    set(owner tfm_emit)
  endif()
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endforeach()
endfunction()
