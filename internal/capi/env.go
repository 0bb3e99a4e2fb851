package capi

import "os"

// toEnv gives this library's copy of the environment what the program around has in it now.
func toEnv(now map[string]*string) error {
	for name, value := range now {
		var err error
		was, is := os.LookupEnv(name)
		switch {
		case value == nil && is:
			err = os.Unsetenv(name)
		case value != nil && (!is || was != *value):
			err = os.Setenv(name, *value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
