package process_test

import (
	"os"
	"testing"

	"durablestreams/internal/dstest/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }
