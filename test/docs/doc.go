// Package docs runs what README.md, CONTRIBUTING.md, docs/ and python/README.md tell their readers to type.
//
// A page's fenced blocks have a language, which says what becomes of them:
//
//	sh       commands: run one after another by bash, in terminals that keep what is exported
//	console  "$ command", and what it shows: run, and compared with what it shows now
//	text     drawings, output, words: nothing to run
//	go       compiled against this module, fragments with the preamble that fragments_test.go has
//	python   compiled by python3, where one is here
//	json     parsed
//
// A block without a language fails. A command that is not to be run as it stands has an entry
// in its page's table (pages_test.go): it is run with other arguments, or goes on until it is
// stopped, or is not run at all, for the reason that the entry gives; then its flags are still
// held against those of the programs. An entry that no command of the page needs fails, too.
// Commands in the text of a page, in backticks, are held against the programs' flags.
//
// Addresses and folders of a page are replaced by others before anything is run, so that tests
// do not meet: see place. Programs are built once.
//
//	go test ./test/docs                              # all pages
//	go test ./test/docs -run 'TestCommands/README' -v   # one page, with what is typed
//	make readme                                      # README's demo, made anew
package docs
