module gojq

go 1.26.8

require github.com/itchyny/gojq v0.12.19

require github.com/itchyny/timefmt-go v0.1.9 // indirect
