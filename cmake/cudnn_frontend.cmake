# Attention through cuDNN: its C++ frontend, where CUDNN_FRONTEND_DIR says, where cmake/setup.sh puts it, or
# installed. Sets TRIREME_HAS_SDPA and, for the configure line, sdpa_is.
set(frontend_least 1.32)
set(sdpa_is "own kernel, cuDNN's frontend not found (make setup fetches it, or set CUDNN_FRONTEND_DIR)")
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/cudnn_frontend.txt pinned REGEX "^nvidia-cudnn-frontend==")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" pinned ${pinned})
if(DEFINED ENV{XDG_CACHE_HOME})
  set(cache $ENV{XDG_CACHE_HOME})
else()
  set(cache $ENV{HOME}/.cache)
endif()
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS ${CUDNN_FRONTEND_DIR} ENV CUDNN_FRONTEND_DIR ${cache}/trireme/cudnn-frontend-${pinned}
  ${CUDNN_INCLUDE_DIR} PATH_SUFFIXES include)
if(NOT CUDNN_FRONTEND_INCLUDE_DIR)
  return()
endif()

file(STRINGS ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h lines
  REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION ")
string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
list(JOIN lines "." version)
if(version VERSION_LESS frontend_least)
  set(sdpa_is "own kernel, cuDNN's frontend in ${CUDNN_FRONTEND_INCLUDE_DIR} is ${version}, older than ${frontend_least}")
  return()
endif()
if(NOT TARGET CUDA::nvrtc)
  set(sdpa_is "own kernel, the toolkit has no NVRTC, which cuDNN's frontend calls")
  return()
endif()
target_link_libraries(cuda_toolkit INTERFACE CUDA::nvrtc)
set(TRIREME_HAS_SDPA ON)
set(sdpa_is "cuDNN, frontend ${version}")
