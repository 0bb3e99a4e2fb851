// Package deploy checks the files of deploy/: their syntax, by the tools that
// will read them, and their flags, by the program that will be given them. It
// checks too that the programs are single files.
package deploy
