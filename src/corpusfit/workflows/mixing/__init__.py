"""Put together texts of several sources and languages: compose."""
