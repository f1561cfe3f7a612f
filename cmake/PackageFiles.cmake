# Run by CPack between the installation into a directory of its own and the packing: what Debian wants otherwise than
# cmake --install leaves it. Manuals are compressed, and the licence and the list of changes have Debian's names.
set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share")
set(doc "${root}/doc/webserverd")
get_filename_component(source "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

# compress FILE...: without the name and the time of the file.
function(compress)
    execute_process(COMMAND gzip --best --no-name --force ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The service manager makes the directory of the logs (LogsDirectory=).
file(REMOVE_RECURSE "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/var")

file(READ "${source}/LICENSE" licence)
string(REGEX MATCH "Copyright [^\n]*" copyright "${licence}")
string(REGEX REPLACE "^.*(Permission is hereby)" "\\1" licence "${licence}")
string(STRIP "${licence}" licence)
string(REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REPLACE "\n" "\n " licence "${licence}")
file(REMOVE "${doc}/LICENSE")
string(REGEX REPLACE "^Copyright \\(c\\) " "" copyright "${copyright}")
file(WRITE "${doc}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: webserverd

Files: *
Copyright: ${copyright}
License: Expat
 ${licence}
")

file(READ "${source}/CHANGELOG.md" changes)
file(WRITE "${doc}/changelog" "${changes}") # a copy would have the permissions of the source
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, if it is set
file(WRITE "${doc}/changelog.Debian"
     "webserverd (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) stable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}; see changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(WRITE "${root}/lintian/overrides/webserverd"
"# Not from Debian, so there is no bug that requests the package.
webserverd: initial-upload-closes-no-bugs
")
file(GLOB_RECURSE pages "${root}/man/*.[1-8]")
compress(${pages} "${doc}/changelog" "${doc}/changelog.Debian")
