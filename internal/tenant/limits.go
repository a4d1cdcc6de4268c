package tenant

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"durablestreams/internal/bytesize"
	"durablestreams/stream"
)

// Limits bound what one tenant may use. [Unlimited] is no bound; 0 lets nothing in.
type Limits struct {
	Streams     int64 // streams
	Bytes       int64 // stored bytes of all of them
	Appends     int64 // changes that add something, in a second
	AppendBytes int64 // bytes added in a second
	Live        int64 // live reads that wait
}

// Unlimited is no bound.
const Unlimited int64 = -1

// none are the limits of whom the file says nothing about.
func none() Limits { return Limits{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited} }

// A tenants file has a line for each tenant, and one for all others:
//
//	tenant NAME [streams=N] [bytes=SIZE] [appends=N] [append-bytes=SIZE] [live=N]
//	others [streams=N] ...
//
// Empty lines and those that begin with # do not count. docs/tenants.md describes it.

// Bounds of a tenants file. Each tenant in it has metrics of its own.
const (
	maxFile    = 4 << 20 // bytes
	maxTenants = 10_000
)

// Table is the content of a tenants file. It never changes.
type Table struct {
	listed map[string]Limits
	others Limits
}

// ReadFile reads a tenants file. Errors name the file and the line.
func ReadFile(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the tenants file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the tenants file: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("the tenants file %s is larger than 4 MiB", path)
	}
	t, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return t, nil
}

// Parse reads the text of a tenants file.
func Parse(text string) (*Table, error) {
	t := &Table{listed: map[string]Limits{}, others: none()}
	number, others := 0, false
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		var err error
		switch {
		case words[0] == "tenant":
			err = t.add(words[1:])
		case words[0] == "others" && !others:
			others = true
			t.others, err = parseLimits(words[1:])
		case words[0] == "others":
			err = errors.New("others stands in an earlier line, too")
		default:
			err = errors.New("a line begins with tenant or others")
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
	}
	return t, nil
}

func (t *Table) add(words []string) error {
	if len(words) == 0 {
		return errors.New("want: tenant NAME and its limits")
	}
	name := words[0]
	if err := checkName(name); err != nil {
		return err
	}
	if _, twice := t.listed[name]; twice {
		return fmt.Errorf("tenant %s stands in an earlier line, too", name)
	}
	if len(t.listed) == maxTenants {
		return fmt.Errorf("more than %d tenants", maxTenants)
	}
	limits, err := parseLimits(words[1:])
	t.listed[name] = limits
	return err
}

// checkName refuses what can be no first segment of a path.
func checkName(name string) error {
	p, err := stream.ParsePath(name)
	if err != nil {
		return fmt.Errorf("%q is not the first segment of a stream's path", name)
	}
	if string(p) != name || strings.Contains(name, "/") {
		return fmt.Errorf("a tenant is the first segment of its streams' paths: %q is not one", name)
	}
	return nil
}

func parseLimits(words []string) (Limits, error) {
	l, seen := none(), map[string]bool{}
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		field, bytes := l.field(key)
		if !ok || field == nil {
			return l, fmt.Errorf("%q: want streams=N, bytes=SIZE, appends=N, append-bytes=SIZE or live=N", word)
		}
		if seen[key] {
			return l, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		var err error
		if bytes {
			*field, err = bytesize.Parse(text)
		} else if *field, err = strconv.ParseInt(text, 10, 64); err != nil || *field < 0 {
			err = fmt.Errorf("%q: want a whole number", word)
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// field gives the limit of a name, nil if there is none, and whether it is a size.
func (l *Limits) field(key string) (field *int64, bytes bool) {
	switch key {
	case "streams":
		return &l.Streams, false
	case "bytes":
		return &l.Bytes, true
	case "appends":
		return &l.Appends, false
	case "append-bytes":
		return &l.AppendBytes, true
	case "live":
		return &l.Live, false
	}
	return nil, false
}

// of gives the limits of a tenant, and whether it stands in the file.
func (t *Table) of(name string) (Limits, bool) {
	if l, ok := t.listed[name]; ok {
		return l, true
	}
	return t.others, false
}
