# The bundle ${NAME}: attention kernels of attngen ${VERSION}. add_subdirectory() of this folder gives the library ${NAME}.
cmake_minimum_required(VERSION 3.10)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
project(${NAME} C)
add_library(${NAME} STATIC ${NAME}.c)
target_include_directories(${NAME} PUBLIC .)
set_target_properties(${NAME} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
