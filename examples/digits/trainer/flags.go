package main

import "unicode"

// statusUsage is the exit status of a command line that cannot be right, as skerry's is.
const statusUsage = 2

// usageError is what is wrong with a command line.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// dashed are the arguments with two dashes before a flag's name: one will do, as package
// flag has it, for no flag is called by one letter.
func dashed(args []string) []string {
	all := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && unicode.IsLetter(rune(a[1])) {
			a = "-" + a
		}
		all[i] = a
		if a == "--" {
			copy(all[i:], args[i:])
			break
		}
	}
	return all
}
