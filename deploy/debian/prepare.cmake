# Read by cpack between staging and packing: brings the staged files into the forms that Debian wants.
set(service ${CPACK_TEMPORARY_DIRECTORY}/service/usr/share)
set(sdk ${CPACK_TEMPORARY_DIRECTORY}/sdk/usr/share)

# Manual pages and changes are compressed, without the time of the day.
file(RENAME ${service}/doc/tidepool/CHANGELOG.md ${service}/doc/tidepool/changelog)
file(GLOB pages ${service}/man/man1/*.1)
execute_process(COMMAND gzip -9nf ${pages} ${service}/doc/tidepool/changelog COMMAND_ERROR_IS_FATAL ANY)

file(RENAME ${sdk}/tidepool/examples ${sdk}/doc/libtidepool-dev/examples)
