# cmake -DAR=ar -DARCHIVE=a.a "-DLIBRARIES=b.a;c.a" -P MergeArchives.cmake
# Adds the members of other archives to an archive (an MRI script: both GNU and
# LLVM ar read them).
set(script "CREATE ${ARCHIVE}.merged\nADDLIB ${ARCHIVE}\n")
foreach(library IN LISTS LIBRARIES)
  string(APPEND script "ADDLIB ${library}\n")
endforeach()
string(APPEND script "SAVE\nEND\n")
file(WRITE ${ARCHIVE}.mri "${script}")
execute_process(COMMAND ${AR} -M INPUT_FILE ${ARCHIVE}.mri RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${AR} could not merge ${LIBRARIES} into ${ARCHIVE}")
endif()
file(RENAME ${ARCHIVE}.merged ${ARCHIVE})
file(REMOVE ${ARCHIVE}.mri)
