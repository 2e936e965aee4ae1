# The bundle ${NAME}: attention kernels, written by attngen ${VERSION}. add_subdirectory() of this folder gives the library ${NAME}.
# SPDX-License-Identifier: MIT-0
cmake_minimum_required(VERSION 3.10)
if(NOT CMAKE_BUILD_TYPE) # kernels that are not optimised are of no use
  set(CMAKE_BUILD_TYPE Release)
endif()
project(${NAME} C)
add_library(${NAME} STATIC ${NAME}.c)
target_include_directories(${NAME} PUBLIC .)
set_target_properties(${NAME} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
