rule letters { strings: $a = /[a-z]{3,9}[0-9]/ $b = { 00 00 ?? 01 } condition: any of them }
rule short : size { meta: sure = true condition: filesize < 100 }
