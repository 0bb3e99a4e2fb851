package durable

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
)

// Reseal replaces a text in a manifest, and gives it the digest that it then has.
func Reseal(name, from, to string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // it was read
	text, err := unseal(f)
	if err != nil {
		return err
	}
	text = bytes.Replace(text, []byte(from), []byte(to), 1)
	return os.WriteFile(name, sealed(text), 0o600)
}

// sealed is a manifest's file with the digest of its text, whatever that is.
func sealed(text []byte) []byte {
	sum := sha256.Sum256(text)
	return fmt.Appendf(nil, `{"manifest":%s,"sha256":"%x"}`, text, sum)
}
