# Writes ${FILE} with the commit of ${SOURCE}, at each build; empty where there is no git or no repository.
cmake_minimum_required(VERSION 3.25)  # its policies: a script has none of the project's
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty=+ --exclude=* OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT "${FILE}" CONTENT "static constexpr char commit_text[] = \"@commit@\";\n" @ONLY)
