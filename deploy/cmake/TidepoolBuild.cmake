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
option(TIDEPOOL_UNITY "Compile the sources of a library in batches" OFF)
option(TIDEPOOL_LTO "Optimise what ships at link time (GCC only)" OFF)
option(TIDEPOOL_FUZZ "Build the libFuzzer targets (clang only)" OFF)
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

# Link-time optimisation for what ships: kvd, kvctl, libtidepool.so and the benches. Objects are
# "fat" (machine code beside the intermediate one), so that tests link the same libraries in the
# ordinary way: tests/CMakeLists.txt says -fno-lto. On 2 cores a small test links in 0.03 s that way
# and in 0.5 s with LTO, a daemon's worth of code in 1 s, and fat objects cost no time to speak of.
if(TIDEPOOL_LTO)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-flto=auto -ffat-lto-objects)
    add_link_options(-flto=auto)
  else()
    message(STATUS "TIDEPOOL_LTO is for GCC only; building without")
  endif()
endif()

# tidepool_lto(TARGET): links a target below tests/ as what ships is linked; for benches.
function(tidepool_lto target)
  if(TIDEPOOL_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -flto=auto -ffat-lto-objects)
    target_link_options(${target} PRIVATE -flto=auto)
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost CONFIG REQUIRED)  # Headers only: Beast and Asio.
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx)  # Its CMake package in Debian 13 names no folder that exists.
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(MUNGE REQUIRED IMPORTED_TARGET munge)
pkg_check_modules(TOMLPP REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(PMEM2 REQUIRED IMPORTED_TARGET libpmem2)
# The example summa uses it if it is there. Tests and benches of summa need it.
if(TIDEPOOL_TESTS)
  pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
elseif(TIDEPOOL_EXAMPLES)
  pkg_check_modules(OPENBLAS IMPORTED_TARGET openblas)
endif()

# The Fortran module is built where a compiler is. Sanitizers of C++ would have to be linked into its programs.
set(TIDEPOOL_FORTRAN OFF)
if(NOT TIDEPOOL_SANITIZE)
  include(CheckLanguage)
  check_language(Fortran)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
    set(TIDEPOOL_FORTRAN ON)
  else()
    message(STATUS "Fortran: no module tidepool, since there is no compiler: apt-get install gfortran")
  endif()
endif()
set(TIDEPOOL_FORTRAN ${TIDEPOOL_FORTRAN} CACHE INTERNAL "The Fortran module is built")

# What every target of ours is compiled with. Generated code does not link it.
add_library(tidepool_options INTERFACE)
target_compile_options(tidepool_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                                  -Wno-missing-field-initializers)
target_include_directories(tidepool_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/client/include)
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
if(TIDEPOOL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TIDEPOOL_FUZZ needs clang: cmake --preset fuzz")
  endif()
  target_compile_options(tidepool_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tidepool_unity(TARGET): compiles the target's sources in batches, so that a batch parses each header
# once. CONTRIBUTING.md has the seconds that this saves. Generated code stays out: its names collide.
function(tidepool_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TIDEPOOL_UNITY} UNITY_BUILD_BATCH_SIZE 5)
endfunction()

# tidepool_library(NAME SOURCES... LINK libs...): one static library of one floor.
function(tidepool_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE tidepool_options)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  tidepool_unity(${name})
endfunction()
