# Everything comes from Debian 12 (tools/dev setup). Cap'n Proto, kj and zstd are linked statically so that a build
# made here runs on a machine that lacks them; fmt is compiled into xtrace_base.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)
find_package(CapnProto REQUIRED)

add_library(xtrace_dep_capnp INTERFACE)
find_library(XTRACE_CAPNP_A libcapnp.a REQUIRED)
find_library(XTRACE_KJ_A libkj.a REQUIRED)
target_link_libraries(xtrace_dep_capnp INTERFACE ${XTRACE_CAPNP_A} ${XTRACE_KJ_A} Threads::Threads)

add_library(xtrace_dep_zstd INTERFACE)
find_library(XTRACE_ZSTD_A libzstd.a REQUIRED)
target_link_libraries(xtrace_dep_zstd INTERFACE ${XTRACE_ZSTD_A})

# The CUDA toolkit: headers of the driver API and of CUPTI. Both libraries are opened at run time, never linked, so one
# build serves machines with and without them.
find_path(XTRACE_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include)
find_path(XTRACE_CUPTI_INCLUDE cupti.h
          PATHS /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include)
find_program(XTRACE_NVCC nvcc PATHS /usr/local/cuda/bin)
if(XTRACE_CUDA_INCLUDE AND XTRACE_CUPTI_INCLUDE)
  set(XTRACE_CUDA ON)
  add_library(xtrace_dep_cuda INTERFACE)
  target_include_directories(xtrace_dep_cuda SYSTEM INTERFACE ${XTRACE_CUDA_INCLUDE} ${XTRACE_CUPTI_INCLUDE})
else()
  set(XTRACE_CUDA OFF)
  message(STATUS "no CUDA toolkit with CUPTI headers: the injected library (xtrace record) and the driver backend "
                 "are left out; everything else builds")
endif()
