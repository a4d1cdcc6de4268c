// Package config reads a settings file: TOML with one setting a line, under the
// names that the command line has for them. It checks names and types and says in
// which line something is wrong; what a setting means is decided by who takes it.
//
// Its functions may be called by any number of goroutines at once.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Kind is what may stand behind a setting's name.
type Kind int

// Kinds of settings.
const (
	Text     Kind = iota // a string
	Quantity             // a string with a unit, or a whole number
	Number               // a whole number
	Switch               // true or false
	List                 // an array of strings
)

// wants says what a kind is, with an example.
var wants = map[Kind]string{
	Text:     `a string in quotes`,
	Quantity: `a string with a unit, such as "16MiB", or a whole number`,
	Number:   `a whole number, such as 100`,
	Switch:   `true or false`,
	List:     `a list of strings, such as ["a", "b"]`,
}

// Setting is one line of a file.
type Setting struct {
	Values []string // one, but for a List
	Place  string   // file and line, as in "ds.toml:3"
}

// Parse reads the text of a file. known lists the settings that there are; every
// other one is an error, as is a value of another kind. All errors that the file has
// are reported at once, each in a line that starts with its place.
func Parse(name string, text []byte, known map[string]Kind) (map[string]Setting, error) {
	raw := map[string]any{}
	if err := toml.Unmarshal(text, &raw); err != nil {
		return nil, syntaxError(name, err)
	}
	settings := map[string]Setting{}
	var errs []error
	for _, at := range positions(text) {
		line, _ := at.Position()
		place := fmt.Sprintf("%s:%d", name, line)
		key := strings.Join(at.Key(), ".")
		kind, ok := known[key]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %w", place, unknown(key, raw[at.Key()[0]], known)))
			continue
		}
		values, err := valuesOf(raw[key], kind)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", place, key, err))
			continue
		}
		settings[key] = Setting{values, place}
	}
	return settings, errors.Join(errs...)
}

// positions tells of every setting where it stands: for the decoder, a target without
// fields lacks all of them.
func positions(text []byte) []toml.DecodeError {
	missing, ok := errors.AsType[*toml.StrictMissingError](toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&struct{}{}))
	if !ok {
		return nil // the file is empty
	}
	return missing.Errors
}

func syntaxError(name string, err error) error {
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		return fmt.Errorf("%s:%d:%d: %s", name, line, column, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return fmt.Errorf("%s: %w", name, err)
}

func unknown(key string, value any, known map[string]Kind) error {
	if _, table := value.(map[string]any); table {
		return fmt.Errorf("there are no sections: write each setting on a line of its own, without [%s]", key)
	}
	if near := nearest(key, known); near != "" {
		return fmt.Errorf("unknown setting %q, did you mean %q?", key, near)
	}
	return fmt.Errorf("unknown setting %q", key)
}

// valuesOf gives a value of a kind as a command line would have it.
func valuesOf(value any, kind Kind) ([]string, error) {
	switch v := value.(type) {
	case string:
		if kind == Text || kind == Quantity {
			return []string{v}, nil
		}
	case int64:
		if kind == Number || kind == Quantity {
			return []string{strconv.FormatInt(v, 10)}, nil
		}
	case bool:
		if kind == Switch {
			return []string{strconv.FormatBool(v)}, nil
		}
	case []any:
		if values, ok := stringsOf(v); ok && kind == List {
			return values, nil
		}
	}
	return nil, fmt.Errorf("want %s", wants[kind])
}

func stringsOf(list []any) ([]string, bool) {
	values := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, false
		}
		values[i] = s
	}
	return values, true
}
