# Compiler settings and helpers that every floor uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

option(TIDEPOOL_WERROR "Treat warnings as errors" OFF)
set(TIDEPOOL_SANITIZE "" CACHE STRING "Sanitizers of our own code, for example address,undefined")

# ccache and mold are used when they are there; neither is needed.
find_program(TIDEPOOL_CCACHE ccache)
if(TIDEPOOL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${TIDEPOOL_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TIDEPOOL_CCACHE})
endif()
find_program(TIDEPOOL_MOLD mold)
if(TIDEPOOL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(ucx CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(TOMLPP REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

# What every target of ours is compiled with. Generated code does not link it.
add_library(tidepool_options INTERFACE)
target_compile_options(tidepool_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                                  -Wno-missing-field-initializers)
target_include_directories(tidepool_options INTERFACE ${PROJECT_SOURCE_DIR})
if(TIDEPOOL_WERROR)
  target_compile_options(tidepool_options INTERFACE -Werror)
endif()
if(TIDEPOOL_SANITIZE)
  target_compile_options(tidepool_options INTERFACE -fsanitize=${TIDEPOOL_SANITIZE}
                                                    -fno-omit-frame-pointer)
  # TSan does not know fences; g++ 12 warns on each. The fences pair with atomics that TSan knows.
  target_compile_options(tidepool_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  add_link_options(-fsanitize=${TIDEPOOL_SANITIZE})
endif()

# tidepool_library(NAME SOURCES... LINK libs...): one static library of one floor.
function(tidepool_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE tidepool_options)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()
