# Read by cpack before it packs: a package must not come from a build that is for tests.
if(CPACK_TIDEPOOL_UNFIT)
  message(FATAL_ERROR "this folder was built ${CPACK_TIDEPOOL_UNFIT}. "
                      "Make packages by: cmake --workflow --preset package")
endif()
