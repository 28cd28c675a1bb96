# Read by cpack between staging and packing: brings the staged files into the forms that Debian wants.
set(service ${CPACK_TEMPORARY_DIRECTORY}/service/usr/share)
set(sdk ${CPACK_TEMPORARY_DIRECTORY}/sdk/usr/share)

file(RENAME ${sdk}/tidepool/examples ${sdk}/doc/libtidepool-dev/examples)

# Each package has a changelog. Manual pages and changes are compressed, without the time of the day.
file(GLOB licenses ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/copyright)
set(changelogs)
foreach(license ${licenses})
  get_filename_component(folder ${license} DIRECTORY)
  file(COPY_FILE ${CPACK_TIDEPOOL_CHANGELOG} ${folder}/changelog)
  list(APPEND changelogs ${folder}/changelog)
endforeach()
file(GLOB pages ${service}/man/man1/*.1)
execute_process(COMMAND gzip -9nf ${pages} ${changelogs} ${service}/doc/tidepool/CHANGELOG.md COMMAND_ERROR_IS_FATAL ANY)
