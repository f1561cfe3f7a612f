# Probe points for bpftrace, perf and gdb (daemon/base/probes.h), if <sys/sdt.h> is there.
set(PROBES AUTO CACHE STRING "Probe points: ON, OFF, or AUTO: if <sys/sdt.h> is installed")
set_property(CACHE PROBES PROPERTY STRINGS AUTO ON OFF)
find_path(SDT_DIRECTORY sys/sdt.h NO_CACHE)
if(PROBES AND SDT_DIRECTORY) # AUTO is true, too
    set(has_probes TRUE)
    add_compile_definitions(WITH_PROBES)
elseif(PROBES STREQUAL "ON")
    message(FATAL_ERROR "PROBES=ON needs <sys/sdt.h>; install: systemtap-sdt-dev")
else()
    set(has_probes FALSE)
    message(STATUS "No probe points: PROBES is OFF, or <sys/sdt.h> is missing (systemtap-sdt-dev)")
endif()
